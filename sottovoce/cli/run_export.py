"""A run as a file: records, results, transcripts, a card, an Inspect log, or the passages that it retrieved."""

from __future__ import annotations

import json
from pathlib import Path

from sottovoce.core.errors import UsageError, nearest
from sottovoce.nodes.question import question_id
from sottovoce.report.inspect_log import inspect_log
from sottovoce.report.transcript import markdown
from sottovoce.runs.measures import bare, gold_of, names_for_trec
from sottovoce.runs.run import Run

FORMS = {".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl", ".ndjson": "jsonl", "": "jsonl"}
FORMS |= {".trec": "trec", ".qrels": "qrels"}
"""Formats by the ending of the file, except for a file named card.json."""
ENDINGS = {
    "csv": (".csv",),
    "markdown": (".md", ".markdown", ".txt"),
    "jsonl": (".jsonl", ".ndjson"),
    "card": (".json",),
    "inspect": (".json",),  # `inspect view` lists one whose name begins with a time, 2026-11-25T12-00-00
    "trec": (".trec", ".run", ".txt"),
    "qrels": (".qrels", ".txt"),
}


def format_of(file: Path, form: str | None) -> str:
    """Return the wanted format, or the one that the file's name says."""
    form = form or ("card" if file.name.endswith("card.json") else FORMS.get(file.suffix.lower()))
    if form is None:
        endings = ", ".join(filter(None, FORMS))
        raise UsageError(f"the file {str(file)!r} ends in {file.suffix!r}; expected card.json, or one of {endings}")
    if form not in ENDINGS:
        raise UsageError(nearest("format", form, list(ENDINGS)))
    return form


def exported(run: Run, form: str) -> str:
    """Return a run in a format; as TREC run file the retrieved passages of each question's first seed."""
    match form:
        case "jsonl":
            return "".join(record.model_dump_json() + "\n" for record in run.records.values())
        case "markdown":
            return "\n".join(map(markdown, run.records.values()))
        case "card":
            return json.dumps(run.card(), indent=2) + "\n"
        case "inspect":
            return inspect_log(run)
        case "trec" | "qrels":
            return _trec(run, form)
    return run.results().to_csv(run.names)


def _trec(run: Run, form: str) -> str:
    """Return judgments, `qid 0 docid rel`, or rankings, `qid Q0 docid rank score tag`; names have no spaces.

    Scores are 1/rank, with enough digits to distinguish ranks: trec_eval sorts only by score.
    """
    lines = []
    for record in (record for record in run.records.values() if record.seed == run.manifest.seeds[0]):
        qid, gold = bare(question_id(record.question)), gold_of(record.question)
        if form == "qrels":
            lines += [f"{qid} 0 {bare(docid)} {grade}\n" for docid, grade in gold.items()]
        else:
            ranked = enumerate(names_for_trec(gold, record.messages), 1)
            tag = bare(run.manifest.scheme)
            lines += [f"{qid} Q0 {bare(docid)} {rank} {1 / rank:.9f} {tag}\n" for rank, docid in ranked]
    if not lines:
        missing = "gold passages of its questions" if form == "qrels" else "retrieved passages"
        raise UsageError(f"the run has no {missing}; {form} would be empty")
    return "".join(lines)
