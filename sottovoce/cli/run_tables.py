"""Tables about saved runs: comparisons, measures and scores of discussions, and the verdicts of a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from sottovoce.analysis.compare import mean_measures
from sottovoce.analysis.discussion_metrics import observed, rates
from sottovoce.analysis.scorers import ROUGE, SCORERS, agreements, judge_questions, judge_settings, raters, scored
from sottovoce.analysis.statistics import check_installed, share
from sottovoce.cli.run_screen import shown_row
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.files import check_no_link
from sottovoce.core.text import counted, figure, one_line, say, shortened
from sottovoce.core.trust import Trust
from sottovoce.experiments.rows import baselines, with_pilots
from sottovoce.experiments.runner import RowRunner
from sottovoce.nodes.state import Decision
from sottovoce.report.comparison import gathered
from sottovoce.report.paper import Files, Findings, findings
from sottovoce.report.tables import Table, interval, share_cells, show, table
from sottovoce.runs import run_directory
from sottovoce.runs.limits import SAME_COMMAND, Currency, Limits, resumable
from sottovoce.runs.log import Key
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.measures import OF_RETRIEVAL
from sottovoce.runs.run import JUDGED, Run, judge_folders, judge_runs, load_run
from sottovoce.runs.runner import Job, resume_run, start_run
from sottovoce.runs.score import scored_again

By = Literal["round", "agent", "model", "limit"]
ALL: tuple[By | None, ...] = (None, "round", "agent", "model", "limit")


def compare_runs(names: Sequence[str], against: str | None, files: Files, prices: Path | None = None) -> None:
    """Print the runs side by side: accuracy, costs, and tests of each pair, or of each run against one."""
    runs = gathered(names).runs
    for run in runs.values():
        run.price(prices)
    show_findings(runs, findings(runs, against, force=files.force), files)


def show_findings(runs: Mapping[str, Run], content: Findings, files: Files) -> None:
    """Print the results of a comparison, and write them to the files."""
    show(*content.parts)
    if written := files.write(content, runs):
        say(f"written: {', '.join(one_line(str(path)) for path in written)}")


def compare_matched(names: Sequence[str], by: Currency, trust: Trust, files: Files, prices: Path | None = None) -> None:
    """Run the unfinished baselines of a run, in folders beside it, and print the comparison of all three."""
    if len(names) > 1:
        raise UsageError(f"--matched compares one run with its baselines, and {len(names)} were named; give one")
    check_installed()
    folder = run_directory.find_run(names[0]).resolve()
    run, beside = load_run(folder), folder.parent
    run.price(prices)  # a wrong file is refused before any model runs
    trust.check_paths(run.manifest.own_settings(), f"run {folder.name!r}", beside)
    rows = with_pilots(baselines(folder.name, run, by))
    runner = RowRunner(beside, show=shown_row)
    runner.read([folder.name, *rows])
    runner.check_all(rows, rows)
    with resumable("all messages are saved"):
        why = runner.run_all(rows, rows)
    shown = {name: run for name, run in runner.runs.items() if "/" not in name}  # pilots are within their rows
    for run in shown.values():
        run.price(prices)
    show_findings(shown, findings(shown, folder.name, force=files.force), files)
    say(f"{f'stopped: {why}; ' if why else ''}saved next to {one_line(str(folder))}")


def show_measures(names: Sequence[str], by: By | None) -> None:
    """Print the measures of each run, overall and by round, agent, model and limit, or by one of them.

    Scores follow: ours, EM, F1 and named of texts, the papers' programs' scores, and retrieval scores if gold passages
    are known.
    """
    parts: list[Table | str] = []
    for name, run in gathered(names).runs.items():
        discussions, scores = observed(run.records.values()), _score_cells(run)
        if not discussions and not scores:
            raise UsageError(f"run {name!r} has no answers to measure; expected questions with a target that ended")
        cells = (
            [rate.measure, one_line(rate.of) or "all", str(rate.happened), str(rate.n), *share_cells(rate.share)]
            for group in (ALL if by is None else [by])
            for rate in rates(discussions, group)
        )
        asked = {each.question for each in discussions} or {*run.clusters().values()}
        parts.append(f"`{one_line(name)}`: {counted(len(asked), 'question')}")
        if discussions:
            parts.append(table("measure | of | happened | n | share | 95 %", cells))
        if scores:
            parts.append(table("score | discussions | mean | 95 %", scores))
    show(*parts)


def _score_cells(run: Run) -> list[list[str]]:
    means = {**scored(run), **mean_measures(run.results())}  # of failed discussions too: their retrievals are known
    order = ("ours", "EM", "F1", "named", *SCORERS, ROUGE, *OF_RETRIEVAL)
    known = {name: means[name] for name in order if name in means}
    return [[name, str(mean.n), figure(mean.value), interval(mean.low, mean.high)] for name, mean in known.items()]


def show_scores(name: str, trust: Trust) -> None:
    """Print the scores of a run as recorded and as this version reads its replies, and each answer that differs."""
    run = load_run(run_directory.find_run(name))
    again, other = scored_again(run, trust)
    before, now = ({row[0]: row[1:] for row in _score_cells(each)} for each in (run, again))
    blank = ["0", "", ""]
    cells = [
        [score, now.get(score, blank)[0], *before.get(score, blank)[1:], *now.get(score, blank)[1:]]
        for score in before | now
    ]
    scores = table("score | discussions | recorded | 95 % | now | 95 %", cells)
    changes = {key: changed for key, record in run.records.items() if (changed := _changes(run, key, again))}
    answers = table("question | seed | answer of | recorded | now", chain(*changes.values()))
    kept = (
        f"question {run.names.get(id, id)}, seed {seed} keeps its recorded answers: {why}"
        for (id, seed), why in other.items()
    )
    ended = counted(sum(record.decision is not None for record in run.records.values()), "discussion")
    differ = f"{len(changes)} of {ended} read differently by this version; the log stays as it is"
    unscored = "no score table: no question has a target"
    show(scores if cells else unscored, answers if changes else "", "\n".join([*map(one_line, kept), differ]))


def _changes(run: Run, key: Key, again: Run) -> list[list[str]]:
    """Return a row for each answer of a discussion that this version reads otherwise: the decision's, or an agent's."""
    decision, other = run.records[key].decision, again.records[key].decision
    if decision is None or other is None:
        return []
    before, now = map(_answers, (decision, other))
    pairs = {who: (before.get(who, "no answer"), now.get(who, "no answer")) for who in before | now}
    at = [one_line(run.names.get(key[0], key[0])), str(key[1])]
    return [[*at, one_line(who), old, new] for who, (old, new) in pairs.items() if old != new]


def _answers(decision: Decision) -> dict[str, str]:
    """Return the decided answer with its score, and each agent's."""
    given = {"the decision": decision["answer"], **{vote["agent"]: vote["answer"] for vote in decision["votes"]}}
    shown = {who: "no answer" if answer is None else shortened(answer, 40) for who, answer in given.items()}
    shown["the decision"] += "" if decision["score"] is None else f", score {figure(decision['score'])}"
    return shown


def judge_run(name: str, model: str, limits: Limits) -> None:
    """Judge the answers of a run that a model has not judged yet; print shares of right answers and agreements."""
    check_installed()
    folder = run_directory.find_run(name)
    with resumable("all verdicts are kept"):
        questions, earlier = judge_questions(load_run(folder)), judge_runs(folder)
        settings, job = judge_settings(model), Job(limits, shown_row)
        judged = [run for run in earlier if run.manifest.settings["model"] == settings.model]
        for run in judged:
            if run.unfinished:
                job.run(JUDGED, resume_run(run), settings, [each for each in judged if each is not run])
        asked = {question["id"] for run in judged for question in run.questions()}
        if new := [question for question in questions if question["id"] not in asked]:
            head = new_manifest("single", settings, new, origin="(answers to judge)")
            for run in judged:  # its verdicts so far are by the same weights and prompts
                run.manifest.model_copy(update={"questions": head.questions}).check_same(head, str(run.folder))
            place = next(islice(judge_folders(folder), len(earlier), None))
            check_no_link(place)
            judged.append(start_run(head, new, place))
            job.run(JUDGED, judged[-1], settings, judged[:-1])
    run = load_run(folder)
    verdicts, clusters = raters(run), run.clusters()
    rights = (
        [
            one_line(rater),
            str(len(given)),
            *share_cells(share([*map(float, given.values())], [clusters[question] for question, _ in given])),
        ]
        for rater, given in verdicts.items()
    )
    cells = list[list[str]]()
    for pair in agreements(verdicts, clusters):
        kappa = "" if pair.kappa is None else f"{pair.kappa:.2f}"
        cells.append([one_line(f"{pair.left} and {pair.right}"), str(pair.n), *share_cells(pair.same), kappa])
    agreed = table("raters | answers | agree | 95 % | Cohen's kappa", cells)
    show(table("rater | answers | right | 95 %", rights), agreed)
    where = ", ".join(one_line(str(each.folder)) for each in judged)
    say(f"\nsaved in {where}; `runs compare` and `runs show` show it as `judged`")
    if unfinished := sum(len(each.unfinished) for each in judged):
        raise SottovoceError(f"{unfinished} answers are not judged; {SAME_COMMAND} resumes")
