"""MADRA, debate with retrieved evidence (Wang et al., arXiv 2312.04854).

Evidence is pooled once. In each round every debater selects from the pool and then talks: in parallel in the first
round, later one after another, each hearing the latest messages. After every round a judge decides whether they
agree; when they do, or after the last round, a summarizer states the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.shared_settings import Pooled


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


def who_begins(debaters: list[str]) -> Callable[[State], list[str]]:
    """Return a router to all debaters in the first round, and to the first debater later."""
    return lambda state: debaters if state["round"] == 0 else debaters[:1]


def who_follows(following: str) -> Callable[[State], str]:
    """Return a router to the end of the round in the first round, and to the next debater later."""
    return lambda state: "close_round" if state["round"] == 0 else following


AGREED = {"next_round": "not agreed", "summarise": "agreed, or last round"}


def after_judge(state: Any) -> Literal["next_round", "summarise"]:
    """Continue until the debaters agree, or no round is left."""
    from sottovoce.nodes.madra import agreed

    over = agreed(state) or state["round"] + 1 >= state["settings"]["rounds"]
    return "summarise" if over else "next_round"


def create_madra(settings: MADRA | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of MADRA. Names in `models`: debaters, "judge", "summarizer"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import madra as acts
    from sottovoce.nodes.setup import close_round

    settings = MADRA.parse(settings)
    debaters = settings.speakers()
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_summarizer, begin=acts.begin, state=acts.Madra)
    frame.graph.add_edge("next_round", "retrieve")
    frame.graph.add_node("retrieve", frame.step(acts.retrieve))
    frame.graph.add_conditional_edges("retrieve", who_begins(debaters), debaters)
    for debater, following in zip(debaters, [*debaters[1:], "close_round"], strict=True):
        ends = dict.fromkeys([following, "close_round"])
        frame.act(debater, acts.talk, role="debater", to=who_follows(following), ends=[*ends])
    frame.join("close_round", close_round, to="judge")
    frame.act("judge", acts.judge, role="judge", to=after_judge, labels=AGREED)
    frame.act("summarise", acts.summarise, agent="summarizer", role="summarizer", to="decide")
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
    first_options="--sample facts/20 --wiki documents --temperature 0 --max-tokens 48 --select-tokens 48 "
    "--chain-of-thought off --rounds 1",
)
make_graph = SCHEME.make_graph
