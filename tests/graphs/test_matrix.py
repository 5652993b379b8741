"""Every scheme under every protocol, with one model and with two of one vocabulary: a decision, or a documented end.

At every test each scheme meets one protocol with one model, each protocol two schemes, and some of them two models.
"""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ContextOverflow, ProtocolError
from sottovoce.graphs import NAMES, mad, scheme
from sottovoce.models import Rows
from sottovoce.nodes import secretary
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Vote, rounds_of
from sottovoce.prompts.render import Prompts
from tests.graphs.support import QUESTION, State, board, built, held, lonely
from tests.support import tiny_model, tiny_tokenizer
from tests.tables import each_row, pairs

PROTOCOLS = ["nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft"]
SMALL: dict[str, dict[str, Any]] = {
    "debate": {"agents": 2, "rounds": 2},
    "mad": {"rounds": 2, "guide": "off"},  # the tiny models have few tokens
    "reconcile": {"agents": 2, "rounds": 1, "guide": "off"},
    "cmd": {"agents": 4, "rounds": 2},
    "madra": {"rounds": 2, "n_wiki": 2, "select_tokens": 4, "guide": "off"},
    "react": {"agents": 2, "steps": 2, "guide": "off"},
    "ia": {"rounds": 2},
    "brief": {"know": "question"},
    "pipeline": {},
    "single": {},
    "self_consistency": {"samples": 2},
    "codegen": {"agents": 2, "rounds": 2, "guide": "off"},
    "whodunit": {"suspects": 3, "attributes": 4, "turns": 2, "guide": "off"},
    "govsim": {"agents": 2, "months": 1, "utterances": 2, "guide": "off"},
}
DISCUSSING = [name for name in SMALL if scheme(name).settings.discusses]
OTHERS = {"moderator", "judge", "secretary", "summarizer", "Tester", "Ranker"}
SPOKEN = ("answer", "revise", "moderate")
UNHEARD = ("select", "wish", "reflect")
HANDED = ("that the sender was told", "hands over more than the game publishes")
"""In the note on edges that carry what the sender read."""
GREEDY = "at temperature 0 cipher equals nl"
"""The note of schemes whose own temperature is 0."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two models of one vocabulary, unlike in shape."""
    root = tmp_path_factory.mktemp("pair")
    for name, hidden in (("one", 32), ("wide", 64)):
        tiny_model(hidden_size=hidden, max_position_embeddings=4096).save_pretrained(root / name)
        tiny_tokenizer().save_pretrained(root / name)
    return [str(root / name) for name in ("one", "wide")]


def check(state: State, protocol: str, scheme_name: str) -> None:
    """A decision, or an abstention that says so; every message carries what its speaker's protocol says.

    What is said in answer turns is said in words.
    """
    decision = state["decision"]
    assert decision["answer"] is not None or "could not be read" in decision["why"] or "no answer" in decision["why"]
    assert decision["score"] in ((None,) if scheme_name == "codegen" else (0.0, 1.0))  # no tests: it knows no target
    for message in (message for message in board(state) if message.source == "model"):
        unheard = message.agent in OTHERS or message.act in UNHEARD or message.asked == "answer"
        unheard |= (scheme_name, message.act) == ("brief", "answer")
        in_words = unheard or scheme_name == "self_consistency"
        spoken = "nl" if in_words else protocol
        assert message.payload is not None and message.payload.protocol == spoken


def test_every_scheme_is_in_the_matrix() -> None:
    assert set(SMALL) == set(NAMES)


@pytest.mark.parametrize(("name", "protocol"), pairs([*SMALL], PROTOCOLS, len(PROTOCOLS)))
def test_one_model(name: str, protocol: str, store: PayloadStore) -> None:
    graph = built(name, lonely(protocol, store), **SMALL[name])
    if name == "react" and protocol in ("kv", "thoughts"):  # prompts with their examples, one behind the other
        with pytest.raises(ContextOverflow, match="the model reads 4096; shorten the prompt"):
            held(graph, target="22")
        return
    state = held(graph, target="22")
    assert all(any(known in note for known in (GREEDY, *HANDED)) for note in state["notes"])
    check(state, protocol, name)


@pytest.mark.parametrize(("name", "protocol"), pairs(DISCUSSING, PROTOCOLS[::-1], 2 * len(PROTOCOLS)))
def test_two_models_of_one_vocabulary(name: str, protocol: str, pair: list[str], store: PayloadStore) -> None:
    chosen = scheme(name).settings(**SMALL[name])
    models = [pair[i % 2] for i in range(len(chosen.speakers()))]
    settings = {**SMALL[name], "protocol": protocol, "model": models, "max_tokens": 4}
    if protocol not in ("nl", "cipher"):
        with pytest.raises(ProtocolError, match=f"{protocol} needs one .* on both sides.*one.*wide.*`fallback='nl'`"):
            held(built(name, store=store, **settings))
        settings["fallback"] = "nl"
    state = held(built(name, store=store, **settings), target="22")
    notes = [note for note in state["notes"] if GREEDY not in note]
    assert bool(notes) == (protocol not in ("nl", "cipher"))
    assert all(any(known in note for known in ("in words", *HANDED)) for note in notes)
    in_words = sum("in words" in note for note in notes) == len(chosen.edges())
    check(state, "nl" if in_words else protocol, name)


# Judge, moderator and secretary hear by the protocol


def turns_of_others(name: str, state: State) -> tuple[Turn, ...]:
    """What moderator, judge or secretary read of the last round."""
    rounds, asked = rounds_of(state, SPOKEN), Question(question=QUESTION["question"])
    view, order = PromptBuilder(Prompts(), asked, None), ["affirmative", "negative"]
    if name == "cmd":
        spoke = [agent for agent in rounds[-1] if agent not in OTHERS]
        # Whatever they said: a tie of them all.
        tied: list[Vote] = [{"agent": agent, "answer": str(i), "counts": True} for i, agent in enumerate(spoke)]
        return secretary.secretary_turns(view, rounds[-1], tied)
    return (mad.moderator_turns if name == "moderator" else mad.candidates_turns)(view, order, rounds)


@pytest.mark.parametrize(("name", "protocol"), pairs(["moderator", "judge", "cmd"], ["cipher", "sde"], 3))
def test_a_latent_discussion_reaches_moderator_judge_and_secretary(
    name: str, protocol: str, store: PayloadStore
) -> None:
    model = lonely(protocol, store, temperature=1.0)
    found = "cmd" if name == "cmd" else "mad"
    state = held(built(found, model, **SMALL[found]))
    ask = Ask("answer", turns_of_others(name, state), protocol="nl")
    request = model.request(ask, model.encode(ask))
    rows = [piece for piece in request.prompt if isinstance(piece, Rows)]
    speakers = {agent for agent in rounds_of(state, SPOKEN)[-1] if agent not in OTHERS}
    assert len(rows if protocol == "cipher" else request.edits) >= len(speakers)
    assert request.feed.kind == "token"  # it answers in words


@each_row("name", SMALL)
def test_hosted_models_alone_speak_in_words_and_the_transcript_says_so(name: str) -> None:
    hosted = ScriptedChatModel(["The answer is 22."] * 40, hooked=False)
    state = held(built(name, hosted, protocol="cipher", **SMALL[name]))
    assert state["notes"] == ["no local model takes part: all messages are text, and none uses cipher"]
