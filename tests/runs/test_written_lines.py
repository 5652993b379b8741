"""Tests of what enters a log: its writer refuses what its reader would refuse, whatever a server or a model reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from sottovoce import open_run, run_questions
from sottovoce.core.errors import StepError
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.nodes.question import Question
from sottovoce.report.comparison import gathered
from sottovoce.report.report import report
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Decided, StepLine
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import run_all
from sottovoce.verify.checks import verify

SUMS: list[Question] = [{"id": f"q{n}", "question": f"{n} + 2?", "target": str(n + 2)} for n in (1, 2)]


class Server(BaseChatModel):
    """A hosted model that says 3 to everything, and reports whatever it was told to."""

    usage: Any = None
    stats: Any = None
    """Statistics of replies to the second question."""

    @property
    def _llm_type(self) -> str:
        return "server"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        second = any("2 + 2" in str(message.text) for message in messages)
        reply = AIMessage("The answer is 3.", additional_kwargs={"stats": self.stats} if second and self.stats else {})
        reply.usage_metadata = self.usage  # as langchain-openai sets it: unchecked
        return ChatResult(generations=[ChatGeneration(message=reply)])


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, None),
        ({"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}, 12),
        ({"input_tokens": 9, "output_tokens": 0, "input_token_details": {"cache_read": None}}, None),
        ({"input_tokens": 10**30, "output_tokens": 3, "total_tokens": 3}, "absurd"),
        ({"input_tokens": 9, "output_tokens": float("nan"), "total_tokens": 8}, "absurd"),
        ({"input_tokens": 9, "output_tokens": [3], "total_tokens": 3}, "absurd"),
        ({"input_tokens": 9, "output_tokens": 3, "input_token_details": {"cache_read": 10**400}}, "absurd"),
        ({"input_tokens": 9, "output_tokens": 3, "input_token_details": "all"}, "absurd"),
    ],
)
def test_whatever_usage_a_server_reports_the_run_can_be_read(usage: Any, counted: Any, tmp_path: Path) -> None:
    run_questions("debate", SUMS, Debate(agents=2, rounds=1), models=Server(usage=usage), folder=tmp_path / "run")

    run = load_run(tmp_path / "run")
    notes = {note for record in run.records.values() for said in record.messages for note in said.notes}
    noted = any("its server reported numbers of tokens that cannot be" in note for note in notes)
    cost = run.cost
    assert run.status == "done" and noted == (counted == "absurd")
    assert cost.tokens_in + cost.tokens_out == (counted * cost.calls if isinstance(counted, int) else 0)
    assert cost.uncounted == (0 if isinstance(counted, int) else cost.calls)
    assert not verify(run, reruns=0).findings
    assert "q2" in report(gathered([str(tmp_path / "run")]))


@pytest.mark.parametrize("value", [float("nan"), 10**30])
def test_a_step_that_no_reader_accepts_ends_its_discussion_alone(value: float, tmp_path: Path) -> None:
    model = Server(stats={"entropy": value})

    run_questions("single", SUMS, Single(), models=model, folder=tmp_path / "run")

    first, second = open_run(tmp_path / "run").records
    assert first.decision is not None and (second.status, second.messages) == ("failed", [])
    assert (second.error or "").startswith("it cannot be saved: events.0.said is ")
    assert (second.error or "").endswith("its stats.entropy should be a finite number of ordinary size")

    again = run_questions("single", SUMS, Single(), models=Server(), folder=tmp_path / "run")
    assert [record.status for record in again.records] == ["done", "done"]


def test_a_question_that_no_reader_accepts_starts_no_run(tmp_path: Path) -> None:
    wrong: Question = {"id": "q1", "question": "1 + 2?", "kind": "number", "target": "three apples"}

    with pytest.raises(
        StepError, match="it cannot be saved: the target is 'three apples': expected one of the kind number"
    ):
        Run.start(new_manifest("single", Single(), [wrong], models=Server()), [wrong], tmp_path / "run")

    assert not (tmp_path / "run").exists()


def test_a_token_limit_stops_a_run_whose_server_reports_no_tokens(tmp_path: Path) -> None:
    """With limit 1 it never stopped."""
    settings, model = Debate(agents=2, rounds=3), Server()
    run = Run.start(new_manifest("debate", settings, SUMS, origin="x", models=model), SUMS, tmp_path / "run")
    run_all(run, settings, run.store(), models=model, limits=Limits(token_limit=1, at_once=1))

    assert run.status == "stopped" and "the token limit cannot be kept: no tokens were reported for" in (run.why or "")
    assert run.cost.calls <= 2  # agents that speak side by side


def test_a_measure_with_the_name_of_a_column_is_refused(tmp_path: Path) -> None:
    """In a table, a scheme's measure `seconds` stood in the column of the duration."""
    manifest = new_manifest("single", Single(), SUMS, models=Server())
    run = Run.start(manifest, SUMS, tmp_path / "run")
    decision = {"answer": "3", "rule": "single", "why": "", "votes": [], "score": 1.0, "measures": {"seconds": 3}}
    events = [Decided.model_validate({"decision": decision})]
    line = StepLine.model_construct(line="step", of=("q1", 0), events=events)
    assert run.misfit(line) == "the measure 'seconds' has the name of a column of results; rename it"
