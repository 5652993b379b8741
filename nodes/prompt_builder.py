"""Prompt builder: pure functions from a question and the messages so far to the turns of a prompt.

The history shape is a chat (Du et al. 2023; SDE): question, own answer, the others'
answers, own answer, ... The fresh shape is one prompt for each round (CIPHER): the last round's
answers of the others, and the agent's own. Experiments on positional bias (CIPHER B.1) swap the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.nodes.option_groups import COMPONENTS
from sottovoce.nodes.question import Question, passages_of, shown
from sottovoce.nodes.settings import Answers
from sottovoce.nodes.shared_settings import Order
from sottovoce.prompts.kinds import KINDS, kind_of, lettered, placeholder
from sottovoce.prompts.render import Prompts


@dataclass(frozen=True)
class PromptBuilder:
    """The prompts of one agent about a question, with its documents and system prompt."""

    prompts: Prompts
    question: Question
    owner: str | None
    """The owner of the documents it shows; None shows those of all agents, as in the single baselines."""
    system: str = ""
    agent: str = ""
    """The agent whose wording of the question and starting builder it shows."""
    components: frozenset[str] = frozenset(COMPONENTS)
    """The prompt components that are switched on."""
    answers: Answers = "short"
    """The wording of the request for an answer: a marked line, or the sentence that small models write."""

    def independent(self, form: str | None = None, demonstrations: Sequence[str] = ()) -> tuple[Turn, ...]:
        """Return the question with the agent's documents, before anybody has said anything."""
        return (*self.system_turn(), Turn("user", self.full_turn(form, demonstrations)))

    def first_turns(self) -> tuple[Turn, ...]:
        """Return the first prompt of several rounds: the question, or the request to share a part of the facts.

        A model that answers from a part of the facts invents the rest, and hearers cannot recognize the inventions. The
        request shows neither the question, which small models would answer instead, nor the worked examples, which they
        would repeat.
        """
        if not self.knows_a_part:
            return self.independent()
        share = self.prompts.render("shared/share", **self.slots(), documents=self.documents())
        return (*self.system_turn(), Turn("user", blocks(self.known([], with_examples=False), share)))

    def full_turn(
        self, form: str | None = None, demonstrations: Sequence[str] = (), discussion: Sequence[Part] = ()
    ) -> tuple[Part, ...]:
        """Return a full turn: the agent's facts, the messages it hears, and last the question and the form.

        `form` replaces the request for the answer's form; `demonstrations` come before the task's own.
        """
        return blocks(self.known(self.documents(), demonstrations), discussion, self.question_of(form))

    def known(
        self, documents: Sequence[str], demonstrations: Sequence[str] = (), *, with_examples: bool = True
    ) -> tuple[Part, ...]:
        """Return the question's context: description, worked examples, documents and starting view."""
        task = self.question
        return self.prompts.render(
            "shared/known",
            **self.slots(),
            documents=documents,
            description=task.get("description", "") if "question_description" in self.components else "",
            demonstrations=[*demonstrations, *(self.worked_examples if with_examples else [])],
            starting_view=task.get("starting_views", {}).get(self.agent, ""),
        )

    def question_of(self, form: str | None = None, *, again: bool = False) -> tuple[Part, ...]:
        """Return the question as this agent reads it, and the request for the answer's form.

        `again`: the chat showed the question before. The default prompts repeat it; some papers' do not.
        """
        form = self.form() if form is None else form
        return self.prompts.render("shared/question", **self.slots(), form=form, again=again)

    def form(self) -> str:
        """Return the request for the steps and for the answer, each if it is switched on.

        The task's own description of the answer replaces the kind's.
        """
        steps, described = "chain_of_thought" in self.components, "answer_description" in self.components
        own, form = self.question.get("answer_description"), KINDS[self.kind].form
        if not described or own or form not in self.prompts.names():
            asked = [words(self.prompts.render("shared/steps"))] if steps else []
            labels = self.question.get("choices") or [] if self.kind == "label" else []
            return " ".join([*asked, listing(own or form, labels)] if described else asked)
        if self.answers == "sentence" or self.prompts.replaces(form):  # a pack may replace the kind's own sentence
            choices = self.question.get("choices") or []
            return words(self.prompts.render(form, steps=steps, examples=bool(self.worked_examples), choices=choices))
        return words(self.prompts.render("shared/answer_line", kind=self.kind, **self.form_slots()))

    def form_slots(self) -> dict[str, object]:
        """Return the values for a request for an answer's form. An option's choices are shown with their letters."""
        choices = self.question.get("choices") or [] if self.kind == "label" else []
        return {"steps": self.steps, "value": self._placeholder(), "choices": choices}

    def value(self, *, again: bool = False) -> str:
        """Return the placeholder of an answer in a JSON form, with the labels, and for a request `again` the options.

        A first request shows the options with the question.
        """
        choices = self.question.get("choices") or []
        listed = choices if self.kind == "label" else lettered(choices) if again and self.kind == "option" else []
        return listing(self._placeholder(), listed)

    def _placeholder(self) -> str:
        """Return "a number", or the task's own words."""
        own = self.question.get("answer_description") if "answer_description" in self.components else None
        return placeholder({"kind": self.kind, "answer_description": own})

    @property
    def kind(self) -> str:
        """The kind of the answer."""
        return kind_of(self.question)

    @property
    def worked_examples(self) -> list[str]:
        """The task's own worked examples, if they are switched on."""
        return (self.question.get("demonstrations") or []) if "demonstrations" in self.components else []

    @property
    def steps(self) -> bool:
        """True if the prompt asks for the steps."""
        return "chain_of_thought" in self.components

    def history(
        self,
        own: Sequence[Message],
        others: Sequence[Sequence[Message]],
        order: Order | None = None,
        remarks: Mapping[int, Sequence[Part]] = MappingProxyType({}),
    ) -> tuple[Turn, ...]:
        """Return the chat so far. `own[r]` and `others[r]` are the answers of round r, from 0 to the last.

        `remarks[r]` stands before the question that follows them. `order` restates the agent's own last answer next to
        the others' answers. After a first round that shared facts, the chat begins with one prompt instead: see
        `after_sharing`.
        """
        turns = [*self.first_turns()]
        for r, (said, heard) in enumerate(zip(own, others, strict=True)):
            last = r == len(own) - 1
            if not r and heard and self.lists_facts(order):
                turns = [*self.after_sharing(heard, latest=last)]
                continue
            turns.append(own_turn(said, latest=last))
            before = () if r else self.examples_after_sharing()
            if not heard:  # a debate of one checks itself (Du et al.)
                turns.append(self.user("debate/verify", before=before))
                continue
            restated = order if last else None
            slots = self._blocks(heard, said if restated else None, restated, latest=last)
            turns.append(self.user("debate/revise", before=before, remark=remarks.get(r, ()), **slots))
        return tuple(turns)

    def lists_facts(self, order: Order | None) -> bool:
        """Return whether the first round shared facts, which the second lists. An `order` of answers keeps the chat."""
        return self.knows_a_part and not order

    def after_sharing(self, others: Sequence[Message], *, latest: bool = True) -> tuple[Turn, ...]:
        """Return one prompt: the facts that the others shared and the agent's own as one list, and the question.

        Small models repeat the last message before a question; from one list they answer by the fact that fits.
        """
        heard = [MessageRef(message, latest=latest) for message in others]
        facts = self.prompts.render("debate/revise_shared", others=heard, documents=self.documents())
        return (*self.system_turn(), Turn("user", blocks(self.known([]), facts, self.question_of())))

    def examples_after_sharing(self) -> tuple[Part, ...]:
        """Return the worked examples for a chat that began with a request to share facts, which shows none."""
        shown = self.worked_examples if self.knows_a_part else []
        none: dict[str, Any] = {"documents": [], "description": "", "starting_view": ""}  # Any: what a slot takes
        return self.prompts.render("shared/known", **self.slots(), **none, demonstrations=shown)

    def history_of_summaries(self, own: Sequence[Message], summaries: Sequence[Message]) -> tuple[Turn, ...]:
        """Return the chat so far, with one summary in place of each round's answers."""
        turns = [*self.first_turns()]
        for r, (said, summary) in enumerate(zip(own, summaries, strict=True)):
            last = r == len(own) - 1
            turns.append(own_turn(said, latest=last))
            before = () if r else self.examples_after_sharing()
            shown = MessageRef(summary, latest=last)
            turns.append(self.user("debate/revise_from_summary", before=before, summary=shown))
        return tuple(turns)

    def fresh(
        self, own: Message, others: Sequence[Message], order: Order | None = None, remark: Sequence[Part] = ()
    ) -> tuple[Turn, ...]:
        """Return one prompt: the question's context, and the last round's answers, the agent's own last (or first)."""
        heard = self.prompts.render("debate/revise", **self._blocks(others, own, order or "others_first", latest=True))
        return (*self.system_turn(), Turn("user", self.full_turn(discussion=blocks(heard, remark))))

    def summarise(self, others: Sequence[Message]) -> tuple[Turn, ...]:
        """Return the question, and the answers to summarize."""
        said = self.prompts.render("debate/summarise", others=[MessageRef(message) for message in others])
        return (*self.system_turn(), Turn("user", blocks(self.question_of(""), said)))

    def _blocks(
        self, others: Sequence[Message], own: Message | None, order: Order | None, *, latest: bool
    ) -> dict[str, Any]:  # Any: what a slot takes
        return {
            "others": [MessageRef(message, latest=latest) for message in others],
            "own": MessageRef(own, latest=latest, own=True) if own else "",
            "own_first": order == "own_first",
        }

    def user(
        self,
        prompt: str,
        form: str | None = None,
        *,
        before: Sequence[Part] = (),
        remark: Sequence[Part] = (),
        **slots: object,
    ) -> Turn:
        """Return a later turn of a chat: a prompt, then the question again and the request for the answer's form."""
        asked = self.question_of(form, again=True)
        return Turn("user", blocks(before, self.prompts.render(prompt, **slots), remark, asked))

    def slots(self) -> dict[str, object]:
        """Return the question as this agent reads it, and the choices with letters."""
        question = self.question.get("wordings", {}).get(self.agent, self.question["question"])
        choices = self.question.get("choices") or []
        return {"question": question, "choices": lettered(choices) if self.kind == "option" else []}

    def documents(self) -> list[str]:
        """Return the passages that this agent knows, as it reads them."""
        return list(map(shown, passages_of(self.question, self.owner)))

    def system_turn(self, *of_scheme: Part) -> list[Turn]:
        """Return the turn with the scheme's and the agent's system prompts, or no turn if there are none."""
        parts: list[Part] = [*of_scheme]
        if self.system:
            parts += ["\n", self.system] if parts else [self.system]
        return [Turn("system", tuple(parts))] if parts else []

    @property
    def knows_a_part(self) -> bool:
        """True if the agent has documents, but not all of them."""
        mine = passages_of(self.question, self.owner)
        return bool(mine) and mine != passages_of(self.question, None)


def listing(request: str, choices: Sequence[str]) -> str:
    """Return a request for one of the choices, which are listed unless the request names them all."""
    if all(choice.casefold() in request.casefold() for choice in choices):
        return request
    return f"{request.removesuffix('.')}: {', '.join(choices)}{'.' * request.endswith('.')}"


def own_turn(message: Message, *, latest: bool = True) -> Turn:
    """Return the turn of a chat that shows an agent its own message."""
    return Turn("assistant", (MessageRef(message, latest=latest, own=True),))


def blocks(*parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts of a prompt, joined by empty lines. Leave out empty parts."""
    found: list[Part] = []
    for block in filter(None, parts):
        for part in (*(["\n\n"] if found else []), *block):
            if isinstance(part, str) and found and isinstance(found[-1], str):
                found[-1] += part  # adjacent texts are tokenized as one
            else:
                found.append(part)
    return tuple(found)
