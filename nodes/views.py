"""Who hears what: pure functions from a question and the messages so far to the turns of a prompt.

The history shape is a chat (Du et al. 2023; SDE): question, own answer, the others'
answers, own answer, ... The fresh shape is one prompt a round (CIPHER): the others'
answers of the last round and the own one beside them. Positional bias (CIPHER B.1) swaps the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sottovoce.channels.message import Heard, Message, Part, Turn, words
from sottovoce.nodes.question import Question, passages_of, shown
from sottovoce.nodes.settings import COMPONENTS, Order
from sottovoce.nodes.state import Vote
from sottovoce.nodes.tally import abstaining, number, viewpoints
from sottovoce.prompts.kinds import KINDS, lettered, placeholder
from sottovoce.prompts.render import Prompts, printable


@dataclass(frozen=True)
class View:
    """How one agent sees a question: the prompts in force, its documents, its system prompt."""

    prompts: Prompts
    question: Question
    owner: str | None
    """Whose documents it shows; None shows those of all agents: the single baselines."""
    system: str = ""
    agent: str = ""
    """Whose wording of the question and starting view it shows."""
    components: frozenset[str] = frozenset(COMPONENTS)
    """The prompt components that are switched on."""

    def independent(self, form: str | None = None, demonstrations: Sequence[str] = ()) -> tuple[Turn, ...]:
        """The question alone."""
        return (*self.system_turn(), Turn("user", self.asked(form, demonstrations)))

    def asked(self, form: str | None = None, demonstrations: Sequence[str] = ()) -> tuple[Part, ...]:
        """The question with all that belongs to it, for an agent's first turn.

        `form` replaces the request for the answer's form; further `demonstrations` come before the task's own.
        """
        task = self.question
        shown = task.get("demonstrations") if self._on("demonstrations") else None
        return self.prompts.render(
            "shared/answer",
            **self.slots(),
            documents=self.documents(),
            form=self.form() if form is None else form,
            description=self.description(),
            demonstrations=[*demonstrations, *(shown or [])],
            starting_view=task.get("starting_views", {}).get(self.agent, ""),
        )

    def form(self) -> str:
        """How the answer is to be given: the steps and the form, each where it is switched on."""
        steps, described = self._on("chain_of_thought"), self._on("answer_description")
        own, form = self.question.get("answer_description"), KINDS[self.kind].form
        if described and not own and form in self.prompts.names():
            return words(self.prompts.render(form, steps=steps))
        asked = [words(self.prompts.render("shared/steps"))] if steps else []
        return " ".join([*asked, own or form] if described else asked)

    def value(self) -> str:
        """What stands in the place of an answer in a JSON form: "a number", or the task's own words."""
        own = "answer_description" if self._on("answer_description") else ""
        return placeholder({name: value for name, value in self.question.items() if name in ("kind", own)})

    @property
    def kind(self) -> str:
        """The kind of the answer."""
        return self.question.get("kind", "number")

    @property
    def steps(self) -> bool:
        """Whether the steps are asked for."""
        return self._on("chain_of_thought")

    def history(
        self, own: Sequence[Message], others: Sequence[Sequence[Message]], order: Order | None = None
    ) -> tuple[Turn, ...]:
        """The chat so far. `own[r]` and `others[r]` are the answers of round r, r = 0 .. the last.

        `order` restates the own last answer beside the others' (a chat has no block for it).
        """
        turns = [*self.independent()]
        for r, (said, heard) in enumerate(zip(own, others, strict=True)):
            last = r == len(own) - 1
            turns.append(Turn("assistant", (Heard(said, latest=last, own=True),)))
            turns.append(self._revise(said, heard, last=last, order=order if last else None))
        return tuple(turns)

    def history_of_summaries(self, own: Sequence[Message], summaries: Sequence[Message]) -> tuple[Turn, ...]:
        """The chat so far where each round's answers reach the agent as one summary."""
        turns = [*self.independent()]
        for r, (said, summary) in enumerate(zip(own, summaries, strict=True)):
            last = r == len(own) - 1
            turns.append(Turn("assistant", (Heard(said, latest=last, own=True),)))
            turns.append(self.user("debate/revise_from_summary", summary=Heard(summary, latest=last)))
        return tuple(turns)

    def fresh(self, own: Message, others: Sequence[Message], order: Order | None = None) -> tuple[Turn, ...]:
        """One prompt with the last round's answers, the own one last (or first)."""
        slots = self._blocks(others, own, order or "others_first", latest=True)
        return (*self.system_turn(), self.user("debate/fresh", documents=self.documents(), **slots))

    def summarise(self, others: Sequence[Message]) -> tuple[Turn, ...]:
        """The answers that are to be summed up."""
        heard = [Heard(message) for message in others]
        parts = self.prompts.render("debate/summarise", **self.slots(), others=heard)
        return (*self.system_turn(), Turn("user", parts))

    def _revise(self, own: Message, others: Sequence[Message], *, last: bool, order: Order | None) -> Turn:
        if not others:  # a debate of one checks itself (Du et al.)
            return self.user("debate/verify")
        return self.user("debate/revise", **self._blocks(others, own if order else None, order, latest=last))

    def _blocks(
        self, others: Sequence[Message], own: Message | None, order: Order | None, *, latest: bool
    ) -> dict[str, object]:
        return {
            "others": [Heard(message, latest=latest) for message in others],
            "own": Heard(own, latest=latest, own=True) if own else "",
            "own_first": order == "own_first",
        }

    def user(self, prompt: str, **slots: object) -> Turn:
        """A prompt that asks about the question in the task's own form."""
        return Turn("user", self.prompts.render(prompt, **self.slots(), form=self.form(), **slots))

    def slots(self) -> dict[str, object]:
        """The question as this agent reads it, and its choices."""
        question = self.question.get("wordings", {}).get(self.agent, self.question["question"])
        return {"question": question, "choices": lettered(self.question.get("choices") or [])}

    def description(self) -> str:
        """What questions of the task are like."""
        return self.question.get("description", "") if self._on("question_description") else ""

    def documents(self, *, numbered: bool = False) -> list[str]:
        """The passages that this agent knows, as it reads them; `numbered` from 1 where a scheme names them so."""
        passages = passages_of(self.question, self.owner)
        return [shown(passage, number if numbered else None) for number, passage in enumerate(passages, 1)]

    def system_turn(self, *of_scheme: Part) -> list[Turn]:
        """The scheme's own system prompt and the agent's, as far as there are any."""
        parts: list[Part] = [*of_scheme]
        if self.system:
            parts += ["\n", self.system] if parts else [self.system]
        return [Turn("system", tuple(parts))] if parts else []

    def _on(self, component: str) -> bool:
        return component in self.components


def viewpoint_slots(
    view: View, votes: Sequence[Vote], heard: Mapping[str, Heard] | None = None, most: int | None = None
) -> list[tuple[str, list[Heard]]]:
    """Each answer as a line with the number of its holders, and what (at most `most` of) them said.

    Abstentions stand apart and last, under a line that is nobody's label.
    """
    held: list[tuple[str | None, list[str]]] = [(each.answer, each.agents) for each in viewpoints(votes, view.question)]
    if silent := abstaining(votes):
        held.append((None, silent))
    return [
        (_line(view, answer, agents), [(heard or {})[name] for name in agents[:most] if heard])
        for answer, agents in held
    ]


def _line(view: View, answer: str | None, agents: Sequence[str]) -> str:
    count, answer = len(agents), answer and printable(answer)
    return words(view.prompts.render("shared/viewpoint", number=number(count), count=count, answer=answer))
