"""What holds in every family that can take part, and with which words the others are refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels import create
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ContextOverflow, ModelError, ProtocolError
from sottovoce.models import Edit, Engine, Feed, Ids, LoadedModel, Record, Reply, Request, Rows, Sampling, assemble
from tests.models.support import generate, plain, reads_as_plain
from tests.support import (
    FAMILIES,
    GREEDY,
    HIDDEN,
    LIMITED,
    LONGROPE,
    SHAPES,
    WINDOW,
    close,
    edit,
    hear,
    ids,
    noise,
    request,
    same_reply,
    say,
    tiny_loaded,
    tiny_model,
    tiny_tokenizer,
)
from tests.tables import some

SEED = 10  # of weights whose greedy replies vary in all families: alibi ones like to repeat a single token
WINDOWED = [family for family in FAMILIES if "sliding_window" in SHAPES[family]]
LONG = "You know: Mia has 3 apples. Another agent answered: 22 pears. What is 14 + 3 * 5 - 7?"
PROMPTS = ("Hi", "What is 14 + 3?", LONG)  # shorter than a window, as long as one, much longer
EVERYTHING = Record(layers=(0, 1), stats=True, top=3)
MEAN, WARM = Feed("mean"), Sampling(1.0)
# Means fed back on a random net amplify float32 noise from step to step. Weights of a tenth of the usual
# spread contract it instead, and a few steps suffice to see a wrong position, mask or weight.
CALM = 0.03
PROTOCOLS = {"nl": create("nl"), "cipher": create("cipher"), "sde all": create("sde", inject="all")}
every_family = pytest.mark.parametrize("family", FAMILIES)
four_families = pytest.mark.parametrize("family", some(FAMILIES, "llama", "gemma2", "bloom", "opt-narrow"))
"""Rotary positions; windows and scaled embeddings; alibi; learned positions, and embeddings narrower than states."""
two_families = pytest.mark.parametrize("family", some(FAMILIES, "gemma2", "opt-narrow"))


def loaded_of(family: str, **options: Any) -> LoadedModel:
    return tiny_loaded(family, seed=SEED, **options)


def rows_of(loaded: LoadedModel, n: int, seed: int = 0) -> Rows:
    """A latent piece as wide as the model's embeddings."""
    return Rows(noise(n, loaded.table.width, seed=seed))


# One row


@every_family
def test_greedy_is_what_transformers_generates_on_both_sides_of_a_window(family: str) -> None:
    loaded, asked = loaded_of(family), [request(prompt, 12) for prompt in PROMPTS]

    replies = loaded.engine.run_all(asked)

    assert [reply.ids for reply in replies] == [generate(loaded, each) for each in asked]
    assert len({id for reply in replies for id in reply.ids}) > 8  # or one wrong position could hardly be seen


@four_families
def test_recorded_states_are_those_of_a_plain_forward_pass(family: str) -> None:
    loaded, asked = loaded_of(family), request(LONG, record=EVERYTHING)
    reply = loaded.engine.run(asked)
    normed = loaded.engine.run(replace(asked, record=Record((0, 1), final_norm=True)))

    read = replace(asked, prompt=(*asked.prompt, Ids(reply.ids)))
    hidden = plain(loaded, read, output_hidden_states=True).hidden_states  # the last one is after the final norm
    spoken = slice(asked.length - 1, None)

    assert [states.shape for states in reply.states.values()] == [(len(reply.ids) + 1, HIDDEN)] * 2
    assert close(reply.states[0], hidden[1][0, spoken])
    assert close(normed.states[0], hidden[1][0, spoken])
    assert close(normed.states[1], hidden[2][0, spoken])
    assert not close(reply.states[1], hidden[2][0, spoken])


@four_families
def test_rows_and_edits_read_as_in_a_plain_forward_pass(family: str) -> None:
    loaded = loaded_of(family)
    pieces = (Ids(ids(LONG)), rows_of(loaded, 4), Ids(ids(" So?")))
    asked = request(pieces, 2, edits=(edit(0, 2, 20), edit(1, 9, 3, seed=1)), record=EVERYTHING)

    assert reads_as_plain(loaded, asked, loaded.engine.run(asked))


@pytest.mark.parametrize("family", WINDOWED)
def test_a_window_is_at_work_in_the_families_that_have_one(family: str) -> None:
    loaded, all_seen = loaded_of(family), loaded_of(family, sliding_window=4096)  # the same weights
    short = request((Ids(ids(LONG)[: WINDOW - 1]),), 1, record=EVERYTHING)
    long = request(LONG, 1, record=EVERYTHING)

    assert same_reply(loaded.engine.run(short), all_seen.engine.run(short))
    assert not same_reply(loaded.engine.run(long), all_seen.engine.run(long))


# Protocols


@two_families
@pytest.mark.parametrize("name", PROTOCOLS)
def test_agents_hear_each_other_by_every_protocol(name: str, family: str, tmp_path: Path) -> None:
    protocol, loaded, store = PROTOCOLS[name], talkative(family), PayloadStore(tmp_path)
    warm = Sampling(0.5) if name == "cipher" else GREEDY  # cold means are tokens
    first = say(protocol, loaded, store, max_new=6, sampling=warm)

    asked = hear(protocol, loaded, store, MessageRef(first), max_new=4)
    reply = loaded.engine.run(asked)
    second = spoken(protocol, loaded, store, reply)
    older, newer = MessageRef(first, latest=False), MessageRef(second)
    answered = hear(protocol, loaded, store, older, newer, max_new=1)

    assert reads_as_plain(loaded, asked, reply)
    assert reads_as_plain(loaded, answered, loaded.engine.run(answered))


@cache
def talkative(family: str) -> LoadedModel:
    """A loaded model that knows no end of sequence, or some families would at once say nothing."""
    model, tokenizer = tiny_model(family, seed=SEED), copy.deepcopy(tiny_tokenizer())
    assert model.generation_config is not None
    model.generation_config.eos_token_id = tokenizer.eos_token = None
    return assemble(f"talkative {family}", model, tokenizer)


def spoken(protocol: Protocol, loaded: LoadedModel, store: PayloadStore, reply: Reply) -> Message:
    payload = protocol.record_reply(reply, loaded)
    return Message("agent_2", 1, "answer", payload.label.text, payload=store.put(payload))


# Batches


def mixed(loaded: LoadedModel) -> list[Request]:
    """Requests that differ in protocol, sampling, length, layers and edits; all are safe from chaos."""
    return [
        request(record=EVERYTHING),
        request(LONG * 3, 12, record=Record(layers=(1,), final_norm=True)),
        request("Hi", 12, sampling=Sampling(1.0, seed=3), record=Record(stats=True)),  # it outlives those with a top
        request(LONG, sampling=Sampling(0.7, top_p=0.8, top_k=20, repetition_penalty=1.1, seed=9), record=EVERYTHING),
        request((Ids(ids("Why?")), rows_of(loaded, 4), Ids(ids(" So?"))), 5, record=EVERYTHING),
        request(LONG, 6, edits=(edit(0, 1, 12), edit(1, 4, 2, seed=1)), record=EVERYTHING),
        request("Mia has", 2, feed=MEAN, sampling=WARM, record=Record(stats=True, sparse=4)),
        request(max_new=10, feed=MEAN, record=EVERYTHING),
    ]


@four_families
def test_a_batch_gives_each_request_what_it_gets_alone(family: str) -> None:
    loaded = loaded_of(family)

    alone = [loaded.engine.run(asked) for asked in mixed(loaded)]
    together = loaded.engine.run_all(mixed(loaded))

    for found, expected in zip(together, alone, strict=True):
        assert same_reply(found, expected)


@two_families
def test_means_of_a_batch_are_those_of_each_alone(family: str) -> None:
    loaded = loaded_of(family, sharp=CALM)
    asked = [request(prompt, 4, feed=MEAN, sampling=WARM, record=EVERYTHING) for prompt in PROMPTS]

    together = loaded.engine.run_all([*asked, request(max_new=9)])

    for found, each in zip(together, asked, strict=False):
        # Nearly uniform distributions have many nearest tokens; the rows are what is promised.
        alone = loaded.engine.run(each)
        assert close(found.rows[loaded.table.key], alone.rows[loaded.table.key])
        assert close(found.states[1], alone.states[1])


# What was read before


def fresh(loaded: LoadedModel) -> Engine:
    """An engine that has seen nothing, around the same model."""
    return assemble("fresh", loaded.model, loaded.tokenizer).engine


def grown(asked: Request, *said: Ids | Rows, more: str = " Another agent answered: 22. So?") -> Request:
    """The next round: all that was read, what was said, and more to answer."""
    return replace(asked, prompt=(*asked.prompt, *said, Ids(ids(more))))


def counted(reply: Reply, least: int, most: int | None = None) -> bool:
    """As many positions were taken over from earlier requests as it should be."""
    return least <= reply.usage.reused <= (reply.usage.prompt - 1 if most is None else most)


def latent_prompt(loaded: LoadedModel) -> tuple[Ids, Rows, Ids]:
    """Rows between words, with enough words after them that a cache of whole blocks must hold the rows too."""
    return (Ids(ids(LONG)), rows_of(loaded, 4), Ids(ids(LONG)))


def prefixes(loaded: LoadedModel) -> dict[str, Request]:
    """What a first round may have read, longer than a window."""
    latent = latent_prompt(loaded)
    return {
        "ids": request(LONG, record=EVERYTHING),
        "rows and edits": request(latent, edits=(edit(0, 12, 30),), record=EVERYTHING),
    }


@two_families
@pytest.mark.parametrize("kind", ["ids", "rows and edits"])
def test_a_longer_prompt_reads_as_on_an_engine_that_has_seen_nothing(kind: str, family: str) -> None:
    loaded = loaded_of(family)
    engine, asked = fresh(loaded), prefixes(loaded)[kind]

    for _ in range(3):  # three rounds, each upon all of the last
        reply = engine.run(asked)
        assert same_reply(reply, fresh(loaded).run(asked))
        before, asked = asked, grown(asked, Ids(reply.ids))
    assert counted(engine.run(asked), least=before.length)


@two_families
def test_a_prompt_upon_spoken_means_reads_as_on_an_engine_that_has_seen_nothing(family: str) -> None:
    loaded = loaded_of(family)
    engine, asked = fresh(loaded), request(LONG, 2, feed=MEAN, sampling=WARM, record=EVERYTHING)

    said = Rows(engine.run(asked).rows[loaded.table.key])
    next_round = grown(asked, said)
    reply = engine.run(next_round)

    assert same_reply(reply, fresh(loaded).run(next_round))
    assert counted(reply, least=asked.length)


def others(asked: Request, loaded: LoadedModel) -> dict[str, tuple[Request, int]]:
    """Prompts that look alike and part from `asked`, each with the position where they do."""
    ids_, rows, last = asked.prompt
    assert isinstance(ids_, Ids)
    (change,) = asked.edits
    at = change.at
    word = Ids((*ids_.ids[:5], ids_.ids[5] + 1, *ids_.ids[6:]))
    return {
        "no edit": (replace(asked, edits=()), at),
        "another delta": (replace(asked, edits=(edit(0, at, len(change.delta), seed=9),)), at),
        "a shorter edit": (replace(asked, edits=(Edit(0, at, change.delta[:2]),)), at + 2),
        "a later edit": (replace(asked, edits=(replace(change, at=at + 1),)), at),
        "an edit more": (replace(asked, edits=(change, edit(0, 2, 1, seed=9))), 2),
        "another layer": (replace(asked, edits=(replace(change, layer=1),)), at),
        "other rows": (replace(asked, prompt=(ids_, rows_of(loaded, len(rows), seed=9), last)), len(ids_)),
        "a word": (replace(asked, prompt=(word, rows, last)), 5),
        "cut": (replace(asked, prompt=(Ids(ids_.ids[:18]),)), 18),
    }


@two_families
def test_a_prompt_that_parts_from_an_earlier_one_takes_over_nothing_beyond(family: str) -> None:
    loaded = loaded_of(family)
    asked = request(latent_prompt(loaded), 4, edits=(edit(0, 12, 5),), record=EVERYTHING)
    for name, (other, at) in others(asked, loaded).items():
        engine = fresh(loaded)
        engine.run(asked)
        found = engine.run(other)
        assert same_reply(found, fresh(loaded).run(other)), name
        assert counted(found, least=0, most=at), name


# What is refused, and why


@pytest.fixture(scope="module")
def limited() -> dict[str, LoadedModel]:
    """Loaded models of families that can take part in some protocols."""
    return {
        family: assemble(family, tiny_model(family, seed=SEED, **config), tiny_tokenizer())
        for family, config in LIMITED.items()
    }


@pytest.mark.parametrize("family", LIMITED)
def test_families_whose_layers_read_ids_speak_in_words(family: str, limited: dict[str, LoadedModel]) -> None:
    loaded, asked = limited[family], [request(prompt, 12) for prompt in PROMPTS]
    assert [reply.ids for reply in loaded.engine.run_all(asked)] == [generate(loaded, each) for each in asked]


@pytest.mark.parametrize(
    ("family", "protocol", "reason"),
    [
        ("gemma3n_text", "cipher", "cipher feeds embeddings, but the layers of 'gemma3n_text' also need token ids"),
        ("gemma4_text", "cipher", "cipher feeds embeddings, but the layers of 'gemma4_text' also need token ids"),
        ("gemma3n_text", "sde", "sde reads and changes one state .*, but the layers of 'gemma3n_text' return 2"),
        ("gemma3n_text", "hidden", "hidden reads and changes one state .*, but the layers of 'gemma3n_text' return 2"),
    ],
)
def test_a_protocol_that_a_family_cannot_carry_is_refused_with_the_reason(
    family: str, protocol: str, reason: str, limited: dict[str, LoadedModel], tmp_path: Path
) -> None:
    loaded = limited[family]
    with pytest.raises(ProtocolError, match=reason):
        say(create(protocol), loaded, PayloadStore(tmp_path))
    with pytest.raises(ProtocolError, match=reason):
        create(protocol).check(loaded, loaded)


def test_a_family_with_one_state_a_position_carries_states_though_its_layers_read_ids(
    limited: dict[str, LoadedModel], tmp_path: Path
) -> None:
    loaded, store = limited["gemma4_text"], PayloadStore(tmp_path)
    asked = hear(create("sde"), loaded, store, MessageRef(say(create("sde"), loaded, store)))
    assert reads_as_plain(loaded, asked, loaded.engine.run(asked))


@pytest.mark.parametrize(
    ("family", "kinds"), [("lfm2", ["conv", "full_attention"]), ("minimax", ["linear_attention", "full_attention"])]
)
def test_a_family_with_layers_that_do_not_attend_is_refused_with_the_reason(family: str, kinds: list[str]) -> None:
    with pytest.raises(ModelError, match=f"ForCausalLM has layers of {kinds[0]}; expected full_attention or sliding"):
        assemble(family, tiny_model(family, layer_types=kinds), tiny_tokenizer())


@pytest.mark.parametrize("family", ["mamba", "mamba2", "rwkv", "jamba", "recurrent_gemma"])
def test_a_family_with_a_recurrent_state_is_refused_with_the_reason(family: str) -> None:
    sizes = {"num_heads": 4, "head_dim": 16, "n_groups": 1} if family == "mamba2" else {}
    with pytest.raises(ModelError, match="ForCausalLM keeps a recurrent state, which cannot be cut back to a prefix"):
        assemble(family, tiny_model(family, **sizes), tiny_tokenizer())


def test_positions_past_which_a_whole_batch_is_read_otherwise_are_refused() -> None:
    model = tiny_model("phi3", rope_parameters=dict(LONGROPE), original_max_position_embeddings=32)
    longrope = assemble("longrope", model, tiny_tokenizer())
    fits, too_long = [request((Ids((5,) * 20),), n) for n in (12, 13)]
    assert longrope.engine.run(fits).ids == generate(longrope, fits)
    with pytest.raises(ContextOverflow, match=r"33 in all, but this model \(longrope\) reads a whole batch"):
        longrope.engine.run(too_long)
