"""Texts to be translated, which nothing here scores: COMET and BLEURT need weights of their own."""

from __future__ import annotations

from sottovoce.evaluation.datasets.schema import DataSet, Fields, Row


def _commonmt(row: Row) -> Fields:
    """The reference is kept beside the question, not as its target: equal words are no measure of a translation."""
    row.text("reference")
    return {"question": f"Translate into English: {row.text('source')}"}


COMMONMT = DataSet(
    "commonmt",
    "Chinese sentences that only common sense translates (lexical ambiguity); a .tsv file of both texts",
    "text",
    {"source": "...", "reference": "..."},
    _commonmt,
    {"lexical": 200},
    "none here (COMET, BLEURT)",
    columns=("source", "reference"),
    is_csv=True,
    tabs=True,
    kept=("reference",),
    needs="COMET or BLEURT weights, which are not part of this program: answers are kept, and not scored",
)
