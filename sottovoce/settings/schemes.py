"""The settings of each scheme, in the order of `graphs.NAMES`; field descriptions are the help of the options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Few, Rounds, Samples
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names
from sottovoce.settings.base import Controlled, Documents, Settings
from sottovoce.settings.retrieval import Pooled

Order = Literal["others_first", "own_first"]
FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]
Share = Literal["own_words", "verbatim"]
SIDES = ("affirmative", "negative")
LARGEST = 3
SECRETARY = "secretary"


class Debate(Controlled):
    """Agents answer, read each other, answer again (Du, 2023)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "summarise")

    agents: Agents = Field(default=2, ge=1, description="Number of agents.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of rounds, including the first.")
    shape: Literal["history", "fresh"] = Field(
        default="history",
        description="Prompt of later rounds: history (a growing chat) or fresh (one prompt for each round, as in "
        "CIPHER).",
    )
    order: Order | None = Field(
        default=None,
        description="Repeat an agent's own answer after (others_first) or before (own_first) the others'. "
        "If not set: do not repeat it in a history; others_first in a fresh prompt.",
    )
    share: Share = Field(
        default="own_words",
        description="How an agent that knows a part of the facts shares them in round 1: own_words, or verbatim "
        "(a copy of its documents, so that no protocol can carry more than text).",
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none",
        description="Summaries that agents read instead of answers: each (every agent sums up the others' answers) "
        "or shared (one summary of all answers).",
    )
    role: list[Role] = Field(
        default=[],
        description="Role of an agent: debater, expert (states the solution) or dummy (states the solution of another "
        "question). One for all agents, or one each.",
    )
    rule: FinalRule | None = Field(
        default=None,
        description="Decision rule: majority, lowest_temperature (the answer of that agent) or average (no answer; "
        "the share of right ones is the score). If not set: the protocol's.",
    )
    last_round: Literal["all", "deciding"] = Field(
        default="all",
        description="Agents that speak in the last round: all, or deciding (only the one with the lowest temperature).",
    )

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a shared summary: each has a node."""
        return *super().topology(), f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """Return the role of each agent."""
        return dict(zip(self.speakers(), self.per_agent("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """Return the solution for experts and the decoys for dummies (CIPHER's bounds) or for the control."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return super().needs() | {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.per_agent("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} reads all agents, but with last_round 'deciding' only one of them speaks; "
                "use --rule lowest_temperature or --last-round all"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries replace the others' answers in a chat; "
                "use --summarise with --shape history and without --order"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to summarize; use --agents 2 or more")
        if self.control != "none" and (self.agents == 1 or self.summarise == "shared"):
            raise UsageError(
                f"the control {self.control!r} replaces messages that agents read from one another; "
                "use it with --agents 2 or more and without --summarise shared"
            )
        return self


class MAD(Settings):
    """Two sides argue before a judge (MAD, Liang et al. 2023).

    A moderator can end the debate before the judge decides it.
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "moderate", "list_candidates", "judge")
    default_temperature: ClassVar[float | None] = 0.0

    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting moderator and judge.")
    rounds: Rounds = Field(
        default=3, ge=1, description="Maximum number of rounds; the moderator may end the debate after any of them."
    )
    # Level 0 contradicts the negative's "you disagree", in the paper too, which measured it to show that it harms.
    disagreement: int = Field(
        default=2,
        ge=0,
        le=3,
        description="Disagreement asked of debaters: 0 (none), 1 (on most points), 2 (only for the sake of the right "
        "answer), 3 (on every point).",
    )
    judge_sees: Literal["all", "last", "first"] = Field(
        default="all", description="Rounds whose statements the judge reads: all, last or first."
    )

    def speakers(self) -> list[str]:
        """Return affirmative, negative, debater_3 .. debater_n, in the order in which they speak."""
        return [*SIDES, *(f"debater_{i + 1}" for i in range(2, self.agents))]

    def others(self) -> list[str]:
        """Return the moderator, and the judge, who is asked if the moderator names no answer."""
        return ["moderator", "judge"]


class ReConcile(Settings):
    """Agents vote, weighted by their confidence (ReConcile).

    They answer with a confidence, read all answers, and answer again (Chen et al. 2023).
    """

    agents: Agents = Field(default=3, ge=2, description="Number of agents; the paper uses three different models.")
    rounds: Rounds = Field(
        default=3, ge=0, description="Maximum number of rounds of discussion after the first answers."
    )
    vote: Literal["weighted", "plain"] = Field(
        default="weighted",
        description="Count votes weighted (by recalibrated confidence) or plain; the result of the other is reported "
        "too.",
    )
    convincing: Annotated[list[str], Names("file of convincing samples")] = Field(
        default=[], description="Files of convincing samples: one for each agent's model, or one for all."
    )
    convincing_in: Literal["all", "discussion"] = Field(
        default="all",
        description="Prompts with convincing samples: all, or discussion (not those for the first answers).",
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.per_agent("convincing")
        if self.convincing_in != "all" and not self.convincing:
            raise UsageError(f"convincing_in is {self.convincing_in!r}, but there are no samples; add --convincing")
        return self


class CMD(Settings):
    """Groups discuss, and hear only tallies of others (CMD).

    A group hears how many members of other groups hold which view (arXiv 2402.18272).
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")
    default_temperature: ClassVar[float | None] = 0.25

    agents: Agents = Field(default=6, ge=1, description="Number of agents, in groups of at most three.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of answers of each agent, including the first.")
    secretary: bool = Field(
        default=True,
        description="Let a secretary decide a tie; otherwise groups send representatives to a higher level.",
    )
    representative: Literal["tied", "first", "random"] = Field(
        default="tied",
        description="Agent that a group sends: tied (the first with a tied answer), first (its first agent) or random.",
    )
    strict: bool = Field(
        default=False, description="Refuse a number of agents that is not a multiple of three, as published."
    )

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def groups(self) -> list[list[str]]:
        """Return the agents in consecutive groups of at most three, as equal as possible."""
        return grouped(self.speakers())

    def edges(self) -> list[tuple[str, str]]:
        """Return edges within groups and to the secretary; all edges without one: representatives may meet anybody."""
        if not self.secretary:
            return super().edges()
        within = [(one, other) for group in self.groups() for one in group for other in group if one != other]
        return [*within, *((agent, SECRETARY) for agent in self.speakers())]

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and secretary or representatives: each has a node."""
        return *super().topology(), "a secretary" if self.secretary else "representatives"

    @model_validator(mode="after")
    def _sends_whom(self) -> CMD:
        if self.secretary and self.representative != "tied":
            raise UsageError(
                f"representative is {self.representative!r}, but the secretary decides a tie; add --secretary off"
            )
        return self

    @model_validator(mode="after")
    def _by_three(self) -> CMD:
        if self.strict and self.agents % LARGEST:
            raise UsageError(f"agents is {self.agents}; expected a multiple of {LARGEST}, or leave out strict")
        return self


class MesSync(Settings):
    """A rule passes messages on, round by round (CMD, arXiv 2402.18272, Algorithm 2)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")

    agents: Agents = Field(default=3, ge=1, description="Number of agents.")
    depth: Rounds = Field(
        default=100, ge=1, description="Maximum number of rounds; a rule that has not ended by then is an error."
    )
    secretary: bool = Field(default=False, description="Let a secretary decide a tie.")

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a secretary: each has a node."""
        return *super().topology(), f"{'a' if self.secretary else 'no'} secretary"


class Alone(Pooled):
    """The settings of agents that hear nobody."""

    discusses: ClassVar[bool] = False

    source: Literal["wiki", "google", "all", "none"] = Field(
        default="none",
        description="Where to search for evidence that replaces the documents: wiki, google, all or none, as in "
        "`madra`.",
    )

    closed_book: bool = Field(
        default=False, description="Answer without the documents: a baseline for agents that look things up."
    )

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents of all agents, or none."""
        return [] if self.closed_book else documents

    @model_validator(mode="after")
    def _opens_books(self) -> Alone:
        if self.closed_book and self.source != "none":
            raise UsageError(f"closed_book is on, but source is {self.source!r}; leave one of them out")
        return self


class Single(Alone):
    """One agent answers once, with all documents (baseline)."""

    part: Few | None = Field(
        default=None,
        ge=1,
        description="Read only the documents that the agent of `ia` with this number would be dealt: its baseline.",
    )
    parts: Few = Field(default=2, ge=2, description="For `part`: number of agents that documents are dealt to.")

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents of all agents, a part of them, or none."""
        shown = super().dealt(documents)
        if self.part is None or isinstance(shown, Mapping):
            return shown
        return shown[self.part - 1 :: self.parts]

    @model_validator(mode="after")
    def _is_there(self) -> Single:
        if self.part is not None and self.part > self.parts:
            raise UsageError(f"part is {self.part}; expected 1 to {self.parts}, the number of parts")
        return self


class SelfConsistency(Alone):
    """The most frequent of one agent's answers (baseline).

    Samples are text under every protocol: a mean embedding leaves nothing to sample.
    """

    samples: Samples = Field(default=5, ge=1, description="Number of samples.")

    def speakers(self) -> list[str]:
        """Return sample_1 .. sample_k."""
        return [f"sample_{i + 1}" for i in range(self.samples)]

    @model_validator(mode="after")
    def _of_one_agent(self) -> SelfConsistency:
        for field in ("model", "temperature", "system"):
            if len(getattr(self, field)) > 1:
                raise UsageError(f"{field} has {len(getattr(self, field))} values; samples are of one agent: set one")
        return self


def grouped(agents: Sequence[str]) -> list[list[str]]:
    """Return consecutive groups of at most three, of nearly equal size: 7 are 3, 2 and 2 (CMD, section 3)."""
    number = -(-len(agents) // LARGEST)
    starts = [i * (len(agents) // number) + min(i, len(agents) % number) for i in range(number + 1)]
    return [list(agents[start:end]) for start, end in pairwise(starts)]
