"""The search for convincing samples: its prompts, its order and end, its file of questions and its output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from sottovoce.agents.convert import to_turns
from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.cli.convince import ModelOptions, SampleOptions, find_convincing_samples
from sottovoce.core.errors import ContextOverflow, SottovoceError, UsageError
from sottovoce.experiments.convincing import WINDOW, SampleSearch, find_samples, read_training
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.convincing_samples import read_samples
from sottovoce.nodes.question import Question
from sottovoce.settings import Single

RIGHT, WRONG, MUTE = "7", "8", "I do not know."
SAID = {"r": ["7"], "w": ["8", "8"], "c": ["8", "7"], "m": [MUTE, MUTE, "7"], "x": ["overflow"]}
"""What is said about a question whose name begins so: right, wrong twice, convinced, first mute, too long."""


def says(answer: str) -> str:
    return answer if answer == MUTE else json.dumps({"reasoning": "So.", "answer": answer, "confidence_level": "1"})


class Pupil(ScriptedChatModel):
    """Has a queue of replies for each question, whatever the order in which they are asked."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        about, turns = run_manager.metadata, tuple(to_turns(messages))
        name = re.findall(r"Ask (\w+)\?", turns[0].text)[-1]
        with self._lock:
            self._recorded.append(RecordedCall(about["agent"], about["act"], about["round"], turns, kwargs))
            text = self._next(name)
        if text == "overflow":
            raise ContextOverflow("too long")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])


def pupil(*names: str) -> Pupil:
    return Pupil(
        replies={name: [each if each == "overflow" else says(each) for each in SAID[name[0]]] for name in names}
    )


def question(name: str, **more: Any) -> Question:
    made = {"question": f"Ask {name}?", "target": RIGHT, "solution": f"Because {name}.", **more}
    return cast(Question, made)


def contexts(model: BaseChatModel, **settings: Any) -> Contexts[Single]:
    return Contexts(Single, Single(**settings), model)


async def searched(*names: str, limit: int = 4, **more: Any) -> tuple[SampleSearch, Pupil]:
    model = pupil(*names)
    return await find_samples(contexts(model), [question(name) for name in names], limit, **more), model


def names(search: SampleSearch) -> list[str]:
    return [sample.question.removeprefix("Ask ").rstrip("?") for sample in search.samples]


# Who is asked what


async def test_a_right_answer_is_not_followed_by_the_explanation() -> None:
    result, model = await searched("r1")

    assert (result.answered, result.wrong, result.samples) == (1, 0, [])
    assert [asked.act for asked in model.calls] == ["answer"]


async def test_a_wrong_answer_is_followed_by_the_explanation_and_a_right_one_then_makes_a_sample() -> None:
    result, model = await searched("c1", "w1", window=1)

    assert (result.answered, result.wrong, names(result)) == (2, 2, ["c1"])
    (sample,) = result.samples
    assert (sample.explanation, sample.answer, sample.before, sample.after) == ("Because c1.", "7", "8", "7")
    alone, again = model.calls[:2]
    assert "Because" not in alone.text and RIGHT not in alone.text
    assert [(asked.act, asked.round) for asked in (alone, again)] == [("answer", 0), ("revise", 1)]
    assert alone.text.startswith("[user]\nQuestion: Ask c1?\n") and '"confidence_level"' in alone.text
    explained, asked = again.text.split("\n\nQuestion: ")
    assert explained.startswith("[user]\nSomebody explains it so:\n<explanation>\nBecause c1.\n</explanation>\n")
    assert alone.text == f"[user]\nQuestion: {asked}"


async def test_an_unreadable_reply_is_retried_once_and_then_wrong() -> None:
    result, model = await searched("m1", window=1)

    assert (result.answered, result.wrong, names(result)) == (1, 1, ["m1"])
    assert result.samples[0].before is None
    assert [(asked.act, len(asked.turns)) for asked in model.calls] == [("answer", 1), ("answer", 3), ("revise", 1)]
    assert model.calls[1].turns[2].text.startswith('This cannot be read: "answer" is missing')


async def test_choices_and_kinds_are_asked_for_and_kept() -> None:
    model = Pupil(replies={"q": [says("A"), says("(B)")]})
    asked = question("q", kind="option", choices=["red", "blue"], target="B")

    (sample,) = (await find_samples(contexts(model), [asked], 4)).samples

    assert "(A) red\n(B) blue\n" in model.calls[1].text
    assert (sample.kind, sample.choices, sample.before, sample.after) == ("option", ["red", "blue"], "A", "B")


async def test_a_hosted_model_is_asked_in_words() -> None:
    model = Pupil(replies={"q": [says(WRONG), says(RIGHT)]}, hooked=False)

    assert names(await find_samples(contexts(model), [question("q")], 4)) == ["q"]
    assert [asked.options for asked in model.calls] == [{}, {}]


async def test_calls_have_seeds_of_their_own_and_the_temperature_that_was_set() -> None:
    seeds = []
    for seed in (0, 0, 1):
        model = pupil("c1", "m1")
        await find_samples(contexts(model, seed=seed, temperature=[0.5]), [question("c1"), question("m1")], 4, window=1)
        assert {asked.options["temperature"] for asked in model.calls} == {0.5}
        assert {asked.options["speaks"] for asked in model.calls} == {"nl"}
        seeds.append([asked.options["seed"] for asked in model.calls])

    assert seeds[0] == seeds[1] and len({*seeds[0], *seeds[2]}) == 10


# Order and end

MIXED = ("r1", "c1", "w1", "c2", "m1", "r2", "c3", "c4", "w2", "c5")


async def test_the_search_ends_with_the_first_four() -> None:
    result, model = await searched(*MIXED, window=1)

    assert names(result) == ["c1", "c2", "m1", "c3"]
    assert (result.answered, result.wrong) == (7, 5)
    assert not any("c4" in asked.text for asked in model.calls)


@pytest.mark.parametrize("limit", [1, 4, 9])
@pytest.mark.parametrize("window", [3, WINDOW])
async def test_asking_side_by_side_finds_what_asking_one_by_one_finds(window: int, limit: int) -> None:
    one_by_one = (await searched(*MIXED, limit=limit, window=1))[0]

    result, model = await searched(*MIXED, limit=limit, window=window)

    assert (result.answered, result.wrong, result.samples) == (
        one_by_one.answered,
        one_by_one.wrong,
        one_by_one.samples,
    )
    asked = {re.findall(r"Question: .*", asked.turns[0].text)[-1] for asked in model.calls}
    assert len(asked) < result.answered + window


async def test_a_failure_beyond_the_end_of_the_search_does_not_count() -> None:
    result, _ = await searched("c1", "x1", limit=1)

    assert names(result) == ["c1"]


async def test_a_failure_names_its_question() -> None:
    with pytest.raises(ContextOverflow, match=r"^question 'Ask x1\?': agent_1: too long$"):
        await searched("r1", "x1", "c1")


async def test_progress_is_shown_question_by_question() -> None:
    seen: list[tuple[int, int, int]] = []

    await searched(
        "r1", "c1", "w1", progress=lambda search: seen.append((search.answered, search.wrong, len(search.samples)))
    )

    assert seen == [(1, 0, 0), (2, 1, 1), (3, 2, 1)]


# The training file


def training(folder: Path, *lines: object) -> Path:
    path = folder / "train.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


LINE = {"question": "Ask?", "target": "7", "explanation": "Because."}


def test_lines_become_questions_in_their_order(tmp_path: Path) -> None:
    choice = {**LINE, "kind": "option", "choices": ["a\u2028b", "c"], "target": "B", "id": "q2"}
    solved = {"question": "Ask?", "target": "7", "solution": "So.", "kind": None, "choices": None}

    first, second, third = read_training(training(tmp_path, LINE, "", json.dumps(choice, ensure_ascii=False), solved))

    assert first == {"question": "Ask?", "target": "7", "solution": "Because."}
    assert second == {k: v for k, v in choice.items() if k != "explanation"} | {"solution": "Because."}
    assert third == {"question": "Ask?", "target": "7", "solution": "So."}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", ": the line is not JSON: "),
        ("[1]", ": found list; expected one JSON object per line"),
        ({**LINE, "question": " "}, ": the question is empty; give a text to discuss"),
        (
            {"question": "Ask?", "target": "7"},
            ": convincing samples need an explanation (or solution), but",
        ),
        (
            {"question": "Ask?", "explanation": "So."},
            ": convincing samples need a right answer, but the question has no",
        ),
        ({**LINE, "solution": "So."}, ": found an explanation and a solution; expected one of them"),
        ({**LINE, "explanation": "\ud800"}, ": explanation is '\\ud800': expected a valid string"),
        ({**LINE, "kind": "number", "target": "seven"}, ": target is 'seven'; expected a plain number"),
        ({**LINE, "kind": "option", "choices": "ab", "target": "A"}, ": choices is 'ab': expected a valid list"),
        (
            {**LINE, "kind": "option", "choices": ["red", "blue"], "target": "green"},
            ": target is 'green'; expected a letter from A to B, or one of the choices: ['red', 'blue']",
        ),
        ({**LINE, "documents": ["x = 3."]}, ": unknown field 'documents'; choose from: "),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: object, complaint: str) -> None:
    path = training(tmp_path, LINE, "", line, "{")

    with pytest.raises(UsageError) as caught:
        read_training(path)

    assert str(caught.value).startswith(f"line 3 of training file {str(path)!r}{complaint}")


def test_a_file_without_a_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is empty; expected one object per line, with the fields: question, "):
        read_training(training(tmp_path, "", " "))
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"is not UTF-8: invalid start byte at byte 0"):
        read_training(tmp_path / "bytes")


# The command's body


def shown(folder: Path, model: BaseChatModel, *names: str, **more: Any) -> Path:
    lines = [question(name) for name in names]
    options = SampleOptions(training_file=training(folder, *lines), out=folder / "samples.json", **more)
    find_convincing_samples(options, ModelOptions(temperature=[0.5], seed=3), models=model)
    return folder / "samples.json"


def test_the_samples_are_written_with_who_was_convinced_and_how_it_was_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(tmp_path, pupil(*MIXED), *MIXED)

    samples = read_samples(out)
    assert (samples.model, samples.weights, samples.temperature) == ("Pupil", None, 0.5)
    assert (samples.settings["protocol"], samples.settings["seed"]) == ("nl", 3)
    assert [sample.explanation for sample in samples.samples] == [f"Because {c}." for c in ("c1", "c2", "m1", "c3")]
    assert capsys.readouterr().out.splitlines() == [
        "7 questions asked, 5 wrong, 4 convinced",
        f"4 samples written to {str(out)!r}",
    ]


def test_fewer_than_were_asked_for_are_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(tmp_path, pupil("c1", "r1"), "c1", "r1")

    assert len(read_samples(out).samples) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "4 were requested; give more questions to find them"


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["r1", "w1"], "2 questions asked, 1 wrong, 0 convinced: nothing was written; give more questions, or another"),
        (["c1", "x1"], "question 'Ask x1?': agent_1: too long"),
    ],
)
def test_nothing_is_written_if_no_explanation_convinces_or_the_model_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str], error: str
) -> None:
    with pytest.raises(SottovoceError) as caught:
        shown(tmp_path, pupil(*names), *names)

    assert str(caught.value).startswith(error) and caught.value.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]
    assert capsys.readouterr().out == ""


def test_a_file_that_exists_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "samples.json").write_text("mine")

    with pytest.raises(UsageError, match=r"--out '.*samples\.json' exists already; choose another file"):
        shown(tmp_path, pupil("c1"), "c1")

    assert (tmp_path / "samples.json").read_text() == "mine"
