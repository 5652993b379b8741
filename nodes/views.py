"""Who hears what: pure functions from a question and the messages so far to the turns of a prompt.

The history shape is a chat (Du et al. 2023; SDE): question, own answer, the others'
answers, own answer, ... The fresh shape is one prompt a round (CIPHER): the others'
answers of the last round and the own one beside them. Positional bias (CIPHER B.1) swaps the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce.channels.message import Heard, Message, Part, Turn, words
from sottovoce.nodes.settings import Order
from sottovoce.nodes.state import Question, documents_of
from sottovoce.prompts.answers import lettered
from sottovoce.prompts.render import Prompts


@dataclass(frozen=True)
class View:
    """How one agent sees a question: the prompts in force, its documents, its system prompt."""

    prompts: Prompts
    question: Question
    owner: str | None
    """Whose documents it shows; None shows those of all agents: the single baselines."""
    system: str = ""

    def independent(self) -> list[Turn]:
        """The question alone."""
        return [*self._system(), self._user("shared/answer", documents=self._documents())]

    def history(
        self, own: Sequence[Message], others: Sequence[Sequence[Message]], order: Order | None = None
    ) -> list[Turn]:
        """The chat so far. `own[r]` and `others[r]` are the answers of round r, r = 0 .. the last.

        `order` restates the own last answer beside the others' (a chat has no block for it).
        """
        turns = self.independent()
        for r, (said, heard) in enumerate(zip(own, others, strict=True)):
            last = r == len(own) - 1
            turns.append(Turn("assistant", (Heard(said, latest=last, own=True),)))
            turns.append(self._revise(said, heard, last=last, order=order if last else None))
        return turns

    def history_of_summaries(self, own: Sequence[Message], summaries: Sequence[Message]) -> list[Turn]:
        """The chat so far where each round's answers reach the agent as one summary."""
        turns = self.independent()
        for r, (said, summary) in enumerate(zip(own, summaries, strict=True)):
            last = r == len(own) - 1
            turns.append(Turn("assistant", (Heard(said, latest=last, own=True),)))
            turns.append(self._user("debate/revise_from_summary", summary=Heard(summary, latest=last)))
        return turns

    def fresh(self, own: Message, others: Sequence[Message], order: Order | None = None) -> list[Turn]:
        """One prompt with the last round's answers, the own one last (or first)."""
        slots = self._blocks(others, own, order or "others_first", latest=True)
        return [*self._system(), self._user("debate/fresh", documents=self._documents(), **slots)]

    def summarise(self, others: Sequence[Message]) -> list[Turn]:
        """The answers that are to be summed up."""
        heard = [Heard(message) for message in others]
        parts = self.prompts.render("debate/summarise", **self._question(), others=heard)
        return [*self._system(), Turn("user", parts)]

    def _revise(self, own: Message, others: Sequence[Message], *, last: bool, order: Order | None) -> Turn:
        if not others:  # a debate of one checks itself (Du et al.)
            return self._user("debate/verify")
        return self._user("debate/revise", **self._blocks(others, own if order else None, order, latest=last))

    def _blocks(
        self, others: Sequence[Message], own: Message | None, order: Order | None, *, latest: bool
    ) -> dict[str, object]:
        return {
            "others": [Heard(message, latest=latest) for message in others],
            "own": Heard(own, latest=latest, own=True) if own else "",
            "own_first": order == "own_first",
        }

    def _user(self, prompt: str, **slots: object) -> Turn:
        return Turn("user", self.prompts.render(prompt, **self._question(), form=self._form(), **slots))

    def _question(self) -> dict[str, object]:
        return {"question": self.question["question"], "choices": lettered(self.question.get("choices") or [])}

    def _form(self) -> str:
        return words(self.prompts.render(f"answers/{self.question.get('kind', 'number')}"))

    def _documents(self) -> list[str]:
        return documents_of(self.question, self.owner)

    def _system(self) -> list[Turn]:
        parts: tuple[Part, ...] = (self.system,)
        return [Turn("system", parts)] if self.system else []
