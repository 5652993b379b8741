"""MADRA, debate with retrieved evidence (Wang et al., arXiv 2312.04854).

Evidence is pooled once. In each round every debater selects from the pool and then talks: in parallel in the first
round, later one after another, each hearing the latest messages. After every round a judge decides whether they
agree; when they do, or after the last round, a summarizer states the answer.

Others hear the debaters' talk by the protocol. Replies that nobody hears are text: choices of evidence, the judge's
and the summarizer's. The paper's code was not published, and its prompts are pictures; these prompts are new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided, majority, voted
from sottovoce.nodes.evidence import Search, evidence_message, numbers, passages, search
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import Passage, shown
from sottovoce.nodes.say import noted, say, say_answer
from sottovoce.nodes.shared_settings import Pooled
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, rounds_of, said
from sottovoce.prompts.own import is_own, is_upheld
from sottovoce.retrievers.pool import Pool, merged

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext


class MADRA(Pooled):
    """Debaters choose evidence, and talk to agree (MADRA).

    The evidence is from one pool; a judge finds whether they agree (arXiv 2312.04854).
    """

    acts: ClassVar[tuple[str, ...]] = ("select", "answer", "revise", "agree", "summarise")
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.5

    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting judge and summarizer.")
    rounds: Rounds = Field(
        default=3,
        ge=1,
        description="Maximum number of rounds; debaters speak in parallel in the first and in turn in later ones.",
    )
    self_selection: bool = Field(
        default=True, description="Let each debater choose its evidence; otherwise all of them read all of it."
    )
    most: Few = Field(default=3, ge=1, description="Maximum number of pieces of evidence that a debater chooses.")
    select_tokens: Tokens = Field(default=512, ge=1, description="Maximum length of an evidence selection, in tokens.")
    search_again: bool = Field(
        default=False, description="Search again before each later round, with the debaters' messages."
    )

    def others(self) -> list[str]:
        """Return the judge, who checks if debaters agree, and the summarizer."""
        return ["judge", "summarizer"]


SELECT, AGREE, SUMMARISE = "select", "agree", "summarise"
JUDGE, SUMMARIZER = "judge", "summarizer"


class Madra(Discussion):
    """The state of MADRA."""

    evidence: Annotated[Pool, merged]
    """All evidence that was found, with its origins."""
    numbers: Annotated[list[str], RESTORED]
    """The keys of the pieces that debaters are shown, by number; a number never changes."""


# Acts


def begin(run: RunContext[MADRA], state: Discussion) -> Update:
    """Start with an empty pool."""
    return {"evidence": {}, "numbers": []}


def retrieve(run: RunContext[MADRA], state: Madra) -> Update:
    """Search for evidence: once, or with `search_again` before every round."""
    before = state["numbers"]
    searches = _searches(run.settings, state)
    if not searches:
        return {}
    found = search(run, state, searches, state["round"])
    pool = merged(state["evidence"], found.pool)
    keys = numbers(run.settings, found, pool, before)
    message = evidence_message(run, state, pool, keys, found, first=len(before))
    return {"evidence": found.pool, "numbers": keys, "board": [message]}


async def talk(run: RunContext[MADRA], state: Madra, agent: Agent) -> Update:
    """Let a debater choose its evidence and then talk; others hear only the talk."""
    offered, builder = passages(state["evidence"], state["numbers"]), _view(state, agent)
    messages, places = list[Message](), [*range(len(offered))]
    if run.settings.self_selection and offered:
        *before, picked = await _select(run, state, agent, builder, offered)
        places = selected(picked, len(offered), run.settings.most) or []
        chosen = ", ".join(_titled(place, offered[place]) for place in places)
        messages = [*before, noted(picked, f"chose {chosen or 'no evidence'}")]
    evidence = [(place, offered[place]) for place in places]
    own, others = _latest(state, run.settings.speakers(), agent.name)
    ask = Ask("revise" if state["round"] else "answer", talk_turns(builder, evidence, own, others))
    messages += await say_answer(run, state, agent, ask, is_read=False)  # unless the summarizer's cannot be read
    simultaneous = state["round"] == 0
    return {"board": messages} if simultaneous else {"board": messages, "turn": state["turn"] + 1}


async def judge(run: RunContext[MADRA], state: Madra, agent: Agent) -> Update:
    """Ask the judge if the debaters' answers of this round agree, and once more if it gives no verdict."""
    turns = judge_turns(_view(state, agent), _spoken(run.settings, state))
    ask = Ask(AGREE, turns, AGREED, protocol=WORDS)

    def validate(message: Message) -> str:
        return "" if verdict(message) is not None else "it has no [Yes] or [No] of its own"

    return {"board": await say(run, state, agent, ask, validate=validate, requested="[Yes] or [No]")}


async def summarise(run: RunContext[MADRA], state: Madra, agent: Agent) -> Update:
    """Return the summarizer's answer to the question."""
    builder, answers = _view(state, agent), _spoken(run.settings, state)
    request = builder.prompts.render("madra/summarise", others=[MessageRef(message) for message in answers])
    system = builder.system_turn(*builder.prompts.render("madra/summarizer"))
    turns = (*system, Turn("user", blocks(request, builder.question_of())))
    return {"board": await say_answer(run, state, agent, Ask(SUMMARISE, turns, protocol=WORDS))}


async def _select(
    run: RunContext[MADRA], state: Madra, agent: Agent, builder: PromptBuilder, offered: Sequence[Passage]
) -> list[Message]:
    """Return a debater's choice of evidence, which is requested once more if it names none."""
    most = run.settings.most

    def validate(message: Message) -> str:
        chosen = selected(message, len(offered), most)
        return "" if chosen is not None else f'it has no line "{CHOSEN}" with numbers or [No Found]'

    turns, form = select_turns(builder, offered, most), selection_form(len(offered), most)
    ask = Ask(SELECT, turns, form, max_tokens=run.settings.select_tokens, protocol=WORDS)
    if not builder.steps:
        ask = replace(ask, response_format=replace(form, after="", spaced=True), prefill=CHOSEN, stop=("\n",))
    return await say(run, state, agent, ask, validate=validate, requested=f"{CHOSEN} [0] [1], or {CHOSEN} [No Found]")


def _searches(settings: MADRA, state: Madra) -> list[Search]:
    if not settings.sources():
        return []
    if state["round"] == 0:
        return [Search(state["question"])]
    if not settings.search_again:
        return []
    spoken = rounds_of(state, ("answer", "revise"))[-2]
    return [Search(spoken[name].full_text, name) for name in settings.speakers() if spoken[name].full_text.strip()]


def _view(state: Madra, agent: Agent) -> PromptBuilder:
    """Return the builder of the question without its documents, which agents can only search."""
    known = state.copy()
    known["documents"] = []
    return agent.prompt_builder(known)


# Prompts


def select_turns(builder: PromptBuilder, offered: Sequence[Passage], most: int) -> tuple[Turn, ...]:
    """Return all passages with their numbers, the question, and the request to choose.

    The request repeats their titles: a small model chooses from the nearby text, and "[No Found]" if there is nothing
    else.
    """
    titles = [_titled(number, passage) for number, passage in enumerate(offered)]
    request = builder.prompts.render("madra/select", titles=titles, most=most, steps=builder.steps)
    asked = blocks(_passages("passages", builder, enumerate(offered)), builder.question_of(""), request)
    return (*_debater(builder), Turn("user", asked))


def talk_turns(
    builder: PromptBuilder, evidence: Iterable[tuple[int, Passage]], own: Message | None, others: Sequence[Message]
) -> tuple[Turn, ...]:
    """Return the evidence with its numbers, the last messages of others and its own, the question and the usual form.

    The paper asks for brackets, which small models echo ("the answer is in square brackets"). Here the prompt does
    not ask for them; they are read where they end a reply.
    """
    slots = {"others": [MessageRef(message) for message in others], "own": MessageRef(own, own=True) if own else ""}
    said = builder.prompts.render("madra/talk", **slots) if others else ()
    asked = blocks(builder.known([]), _passages("evidence", builder, evidence), said, builder.question_of())
    return (*_debater(builder), Turn("user", asked))


def judge_turns(builder: PromptBuilder, answers: Sequence[Message]) -> tuple[Turn, ...]:
    """Return the question and the answers."""
    request = builder.prompts.render("madra/agree", others=[MessageRef(message) for message in answers])
    system = builder.system_turn(*builder.prompts.render("madra/judge"))
    return (*system, Turn("user", blocks(builder.question_of(""), request)))


def _debater(builder: PromptBuilder) -> list[Turn]:
    return builder.system_turn(*builder.prompts.render("madra/debater"))


def _passages(prompt: str, builder: PromptBuilder, evidence: Iterable[tuple[int, Passage]]) -> Sequence[Part]:
    found = [shown(passage, number) for number, passage in evidence]
    return builder.prompts.render(f"madra/{prompt}", passages=found) if found else ()


def _latest(state: Madra, order: Sequence[str], agent: str) -> tuple[Message | None, list[Message]]:
    """Return the last answers of an agent and, in order, of the others, from this round if they spoke already."""
    rounds = rounds_of(state, ("answer", "revise"))
    if state["round"] == 0:  # in parallel: nobody hears anybody, whatever the order
        return None, []
    before, now = rounds[-2:]
    last = {name: now.get(name) or before[name] for name in order}
    return last[agent], [last[name] for name in order if name != agent]


def _spoken(settings: MADRA, state: Madra) -> list[Message]:
    spoken = rounds_of(state, ("answer", "revise"))[-1]
    return [spoken[name] for name in settings.speakers()]


# Readers and decision


CHOSEN = "Evidence:"
AGREED = Form(choices=("[Yes]", "[No]"), unknown=False)
_NOUN = r"(?:passages?|pieces?|numbers?|documents?|items?|sources?|texts?)"
_MARK = re.compile(
    rf"^[^\w\n]{{0,9}}(?:(?:my|the|final|chosen|selected) ){{0,2}}evidence(?: {_NOUN})?[*_]{{0,3}} ?[:=]", re.I | re.M
)
_CHOICE = re.compile(
    rf"\W{{0,9}}(?:{_NOUN}\s)?[#\[]?\d{{1,6}}(?:(?:[\s,;&#*\u2022\[\]]|(?<=\n)-|\band\b){{1,9}}\d{{1,6}}){{0,99}}[\])*.}}\s]{{0,9}}",
    re.IGNORECASE,
)
"""Nothing but numbers, in brackets or not, in one line or as a list; a range of numbers is none."""
_NOTHING = re.compile(r"\W*(?:none(?: of them)?|nothing|no(?:t|ne)? found|no evidence)\W*", re.IGNORECASE)
_VERDICT = re.compile(r"\[\s?(yes|no)\s?\]", re.IGNORECASE)
_LAST = re.compile(r"^[^\w\n]{0,9}(?:(?:my |the |final ){0,2}(?:verdict|answer)\W{1,6})?(yes|no)\W*\Z", re.I | re.M)


def selection_form(offered: int, most: int) -> Form:
    """Return the form of a choice: free text, then a line that names offered pieces or none."""
    number = "|".join(map(str, range(offered)))
    more = rf"(?: \[(?:{number})\]){{0,{most - 1}}}" if most > 1 else ""
    return Form(pattern=rf"\[(?:{number})\]{more}|\[No Found\]", after=CHOSEN, unknown=False)


def selected(message: Message, offered: int, most: int) -> list[int] | None:
    """Return the first `most` chosen numbers below `offered`, each once, in the reply's order, or None without any.

    The numbers follow the last "Evidence:" that begins a line, or are the whole reply. Remarks in parentheses do not
    count, and a line with anything else chooses nothing. "[No Found]" chooses nothing, too.
    """
    text = message.whole_text
    marks = [mark for mark in _MARK.finditer(text) if is_own(text, mark.start())]
    behind = re.sub(r"\([^()\n]{0,200}\)", "", text[marks[-1].end() :] if marks else text).strip()
    lines = (behind, behind.partition("\n")[0]) if marks else (behind,)
    line = next((line for line in lines if _CHOICE.fullmatch(line) or _NOTHING.fullmatch(line)), None)
    if line is None or (not marks and _MARK.search(text)):
        return None
    return [number for number in dict.fromkeys(map(int, re.findall(r"\d+", line))) if number < offered][:most]


def verdict(message: Message) -> bool | None:
    """Return a judge's verdict: [Yes] or [No], or a last line of that word. Without one or with both, return None."""
    text = message.whole_text.strip()
    found = [*_VERDICT.finditer(text)] or [*_LAST.finditer(text)]
    if len({each[1].lower() for each in found}) != 1:
        return None
    *_, last = found
    stated = is_own(text, last.start()) and is_upheld(text[last.end() :])
    return last[1].lower() == "yes" if stated else None


def agreed(state: Discussion) -> bool:
    """Return True if the judge found that the debaters agree in the current round."""
    message = said(state, JUDGE, state["round"], (AGREE,))
    return message is not None and verdict(message) is True


def by_summarizer(run: RunContext[MADRA], state: Madra) -> Decision:
    """Decide by the summarizer's answer; if it cannot be read, by most of the debaters' last answers."""
    votes = [voted(message, state) for message in _spoken(run.settings, state)]
    message, round, agrees = said(state, SUMMARIZER, state["round"], (SUMMARISE,)), state["round"] + 1, agreed(state)
    assert message is not None, "the summarizer speaks last"
    answer = voted(message, state)["answer"]
    how = f"they agreed in round {round}" if agrees else f"they never agreed in {counted(round, 'round')}"
    if answer is None:
        decision = majority(votes, state)
        why = f"{how}; the summarizer's answer could not be read: {decision['why']}"
        return {**decision, "why": why, "agreed": agrees}
    shown: list[Vote] = [{**vote, "counts": False} for vote in votes if vote["answer"] is not None]  # none was asked
    return {**decided(SUMMARIZER, how, [], shown, state, (answer,)), "by": SUMMARIZER, "agreed": agrees}


def _titled(number: int, passage: Passage) -> str:
    return f"[{number}] {passage.get('title') or passage['text'][:60]}"


# The graph


def who_begins(debaters: list[str]) -> Callable[[State], list[str]]:
    """Return a router to all debaters in the first round, and to the first debater later."""
    return lambda state: debaters if state["round"] == 0 else debaters[:1]


def who_follows(following: str) -> Callable[[State], str]:
    """Return a router to the end of the round in the first round, and to the next debater later."""
    return lambda state: "close_round" if state["round"] == 0 else following


ENDS = {"next_round": "not agreed", "summarise": "agreed, or last round"}


def after_judge(state: Any) -> Literal["next_round", "summarise"]:
    """Continue until the debaters agree, or no round is left."""
    over = agreed(state) or state["round"] + 1 >= state["settings"]["rounds"]
    return "summarise" if over else "next_round"


def create_madra(settings: MADRA | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of MADRA. Names in `models`: debaters, "judge", "summarizer"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.setup import close_round

    settings = MADRA.parse(settings)
    debaters = settings.speakers()
    frame = Frame(SCHEME, settings, **inputs, rule=by_summarizer, begin=begin, state=Madra)
    frame.graph.add_edge("next_round", "retrieve")
    frame.graph.add_node("retrieve", frame.step(retrieve))
    frame.graph.add_conditional_edges("retrieve", who_begins(debaters), debaters)
    for debater, following in zip(debaters, [*debaters[1:], "close_round"], strict=True):
        ends = dict.fromkeys([following, "close_round"])
        frame.act(debater, talk, role="debater", to=who_follows(following), ends=[*ends])
    frame.join("close_round", close_round, to="judge")
    frame.act("judge", judge, role="judge", to=after_judge, labels=ENDS)
    frame.act("summarise", summarise, agent="summarizer", role="summarizer", to="decide")
    return frame.graph


def manner(settings: MADRA) -> str:
    """Return a phrase that describes the debate."""
    found = " and ".join(f"{most} of {spec}" for spec, most in settings.sources()) or "none"
    chosen = f"at most {settings.most} chosen" if settings.self_selection else "all read"
    held = f"{settings.agents} debaters, at most {counted(settings.rounds, 'round')}"
    return f"{held} · evidence: {found}, {chosen}"


SCHEME = Scheme(
    "madra",
    MADRA,
    create_madra,
    sample="world",
    headings={
        "retrieve": "Evidence",
        "agree": "The judge after round {round}",
        "summarise": "The summarizer after round {round}",
    },
    manner=manner,
    shows="agents choose different passages, and a judge sends them back until they agree",
    first={
        "sample": "facts/5",
        "wiki": "documents",
        "temperature": 0.7,
        "chain_of_thought": "off",
        "rounds": 2,
        "max_tokens": 48,
        "select_tokens": 48,
    },
)
make_graph = SCHEME.make_graph
