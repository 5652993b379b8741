"""The settings of each scheme, in the order of `graphs.NAMES`; the fields' own words are the help of their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.bounds import Agents, Few, Rounds, Samples
from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Controlled, Documents, Settings
from sottovoce.nodes.settings.looking import Pooled
from sottovoce.trust import Names

Order = Literal["others_first", "own_first"]
FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]
Share = Literal["own_words", "verbatim"]
SIDES = ("affirmative", "negative")
LARGEST = 3
SECRETARY = "secretary"


class Debate(Controlled):
    """Several agents answer, read one another's answers, and answer again (Du et al. 2023)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "summarise")

    agents: Agents = Field(default=2, ge=1, description="how many agents")
    rounds: Rounds = Field(default=3, ge=1, description="rounds, the independent answers included")
    shape: Literal["history", "fresh"] = Field(
        default="history", description="a chat that grows, or one prompt a round (CIPHER)"
    )
    order: Order | None = Field(
        default=None, description="restate the own answer after or before the others' (fresh: others first)"
    )
    share: Share = Field(
        default="own_words",
        description="How an agent that knows a part of the facts shares them in round 1: own_words, or verbatim "
        "(a copy of its documents, so that no protocol can carry more than words).",
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none", description="agents read a summary: of the others' answers each, or one of all answers"
    )
    role: list[Role] = Field(
        default=[], description="debater, expert (knows the solution) or dummy (says another one); one each"
    )
    rule: FinalRule | None = Field(default=None, description="how it is decided; the protocol's own rule if not given")
    last_round: Literal["all", "deciding"] = Field(
        default="all", description="who speaks last: all, or only the deciding agent"
    )

    def topology(self) -> tuple[str, ...]:
        """A node for each agent, and one for a shared summary."""
        return *super().topology(), f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """What each agent plays."""
        return dict(zip(self.speakers(), self.each("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """An expert says the solution, a dummy a decoy (CIPHER's bounds); a control may put decoys in all places."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return super().needs() | {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.each("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} looks at all agents, but last_round 'deciding' lets one of them speak; "
                "use --rule lowest_temperature or --last-round all"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries stand in the place of the others' answers in a chat; "
                "use --summarise with --shape history and without --order"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to sum up; give --agents 2 or more")
        if self.control != "none" and (self.agents == 1 or self.summarise == "shared"):
            raise UsageError(
                f"the control {self.control!r} stands in the place of messages that an agent hears of another; "
                "use it with --agents 2 or more and without --summarise shared"
            )
        return self


class MAD(Settings):
    """Two sides argue in turn before a moderator, who ends it; a judge decides if it does not (Liang et al. 2023)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "moderate", "list_candidates", "judge")
    default_temperature: ClassVar[float | None] = 0.0

    agents: Agents = Field(default=2, ge=2, description="how many debaters; moderator and judge come on top")
    rounds: Rounds = Field(default=3, ge=1, description="rounds, at most: the moderator may end it after any")
    # Level 0 contradicts the negative's "you disagree", in the paper too: it was measured to show that it harms.
    disagreement: int = Field(
        default=2,
        ge=0,
        le=3,
        description="asked of debaters: 0 none, 1 most points, 2 for the right answer, 3 every point",
    )
    judge_sees: Literal["all", "last", "first"] = Field(
        default="all", description="which rounds' statements the judge reads"
    )

    def speakers(self) -> list[str]:
        """affirmative, negative, then debater_3 .. debater_n, in the order in which they speak."""
        return [*SIDES, *(f"debater_{i + 1}" for i in range(2, self.agents))]

    def others(self) -> list[str]:
        """The moderator, and the judge who is asked where it names no answer."""
        return ["moderator", "judge"]


class ReConcile(Settings):
    """Agents give answers with a confidence, read all of them, and vote by weight (ReConcile, Chen et al. 2023)."""

    agents: Agents = Field(default=3, ge=2, description="how many agents; the paper has three different models")
    rounds: Rounds = Field(default=3, ge=0, description="rounds of discussion after the first answers, at most")
    vote: Literal["weighted", "plain"] = Field(
        default="weighted", description="count recalibrated confidences, or heads; the other is reported beside it"
    )
    convincing: Annotated[list[str], Names("file of convincing samples")] = Field(
        default=[], description="files of convincing samples, one of each agent's model, or one for all"
    )
    convincing_in: Literal["all", "discussion"] = Field(
        default="all", description="where they are shown: in every phase, or not before the first answer"
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.each("convincing")
        if self.convincing_in != "all" and not self.convincing:
            raise UsageError(f"convincing_in is {self.convincing_in!r}, but no samples were given; add --convincing")
        return self


class CMD(Settings):
    """Groups discuss in full, and hear of other groups only how many hold which view (CMD, arXiv 2402.18272)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")
    default_temperature: ClassVar[float | None] = 0.25

    agents: Agents = Field(default=6, ge=1, description="how many agents, in groups of at most three")
    rounds: Rounds = Field(default=3, ge=1, description="answers of each agent, the first included")
    secretary: bool = Field(default=True, description="ask a secretary at a tie; else groups send representatives")
    representative: Literal["tied", "first", "random"] = Field(
        default="tied", description="whom a group sends: the first with a tied answer, the first, or by lot"
    )
    strict: bool = Field(default=False, description="refuse numbers of agents that three does not divide, as published")

    def others(self) -> list[str]:
        """The secretary, who is asked at a tie alone."""
        return [SECRETARY] if self.secretary else []

    def groups(self) -> list[list[str]]:
        """Consecutive, as equal as possible, of at most three."""
        return grouped(self.speakers())

    def edges(self) -> list[tuple[str, str]]:
        """Messages stay within a group; the secretary reads them all, and representatives may meet anybody."""
        if not self.secretary:
            return super().edges()
        within = [(one, other) for group in self.groups() for one in group for other in group if one != other]
        return [*within, *((agent, SECRETARY) for agent in self.speakers())]

    def topology(self) -> tuple[str, ...]:
        """A node for each agent, and one for a secretary or for higher levels."""
        return *super().topology(), "a secretary" if self.secretary else "representatives"

    @model_validator(mode="after")
    def _sends_whom(self) -> CMD:
        if self.secretary and self.representative != "tied":
            raise UsageError(
                f"representative is {self.representative!r}, but a tie goes to the secretary; add --secretary off"
            )
        return self

    @model_validator(mode="after")
    def _by_three(self) -> CMD:
        if self.strict and self.agents % LARGEST:
            raise UsageError(f"agents is {self.agents}: expected a multiple of {LARGEST} where strict is set")
        return self


class MesSync(Settings):
    """Messages are passed on by a rule, round by round (CMD, arXiv 2402.18272, Algorithm 2)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")

    agents: Agents = Field(default=3, ge=1, description="how many agents")
    depth: Rounds = Field(default=100, ge=1, description="rounds, at most: a rule that is not over by then is refused")
    secretary: bool = Field(default=False, description="ask a secretary at a tie")

    def others(self) -> list[str]:
        """The secretary, who is asked at a tie alone."""
        return [SECRETARY] if self.secretary else []

    def topology(self) -> tuple[str, ...]:
        """A node for each agent, and one for a secretary."""
        return *super().topology(), f"{'a' if self.secretary else 'no'} secretary"


class Alone(Pooled):
    """What agents can be told that hear nobody."""

    discusses: ClassVar[bool] = False

    source: Literal["wiki", "google", "all", "none"] = Field(
        default="none",
        description="where evidence is looked for in the place of documents, as in `madra`",
    )

    closed_book: bool = Field(
        default=False, description="answer without the documents: the baseline of agents that look things up"
    )

    def dealt(self, documents: Documents) -> Documents:
        """Those of all, or none."""
        return [] if self.closed_book else documents

    @model_validator(mode="after")
    def _opens_books(self) -> Alone:
        if self.closed_book and self.source != "none":
            raise UsageError(f"closed_book is on, but source is {self.source!r}; leave one of them out")
        return self


class Single(Alone):
    """One agent answers once, with the documents of all: the first baseline."""

    part: Few | None = Field(
        default=None, ge=1, description="read only what this one of the agents of `ia` would be dealt: its baseline"
    )
    parts: Few = Field(default=2, ge=2, description="how many agents that is dealt to")

    def dealt(self, documents: Documents) -> Documents:
        """Those of all, of a part of them, or none."""
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
    """Independent samples of one agent, and the most frequent answer: the second baseline.

    Samples are drawn in words under every protocol: a mean of embeddings leaves nothing to draw.
    """

    samples: Samples = Field(default=5, ge=1, description="how many samples")

    def speakers(self) -> list[str]:
        """sample_1 .. sample_k."""
        return [f"sample_{i + 1}" for i in range(self.samples)]

    @model_validator(mode="after")
    def _of_one_agent(self) -> SelfConsistency:
        for field in ("model", "temperature", "system"):
            if len(getattr(self, field)) > 1:
                raise UsageError(f"{field} has {len(getattr(self, field))} values; samples are of one agent, give one")
        return self


def grouped(agents: Sequence[str]) -> list[list[str]]:
    """Agents in consecutive groups as equal as possible, none above three: 7 are 3, 2 and 2 (CMD, section 3)."""
    number = -(-len(agents) // LARGEST)
    starts = [i * (len(agents) // number) + min(i, len(agents) % number) for i in range(number + 1)]
    return [list(agents[start:end]) for start, end in pairwise(starts)]
