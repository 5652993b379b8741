"""Translation data sets, which this program cannot score: COMET and BLEURT need weights of their own."""

from __future__ import annotations

from sottovoce.datasets.schema import DataSet, Fields, Row


def _commonmt(row: Row) -> Fields:
    """Read a row; the reference is saved with the question but is not its target: a match is not a useful score."""
    row.text("reference")
    return {"question": f"Translate into English: {row.text('source')}"}


COMMONMT = DataSet(
    "commonmt",
    "Chinese sentences whose translation needs common sense (lexical ambiguity); a .tsv file of both texts",
    "text",
    {"source": "...", "reference": "..."},
    _commonmt,
    {"lexical": 200},
    "none here (COMET, BLEURT)",
    columns=("source", "reference"),
    is_csv=True,
    tabs=True,
    kept=("reference",),
    needs="COMET or BLEURT weights, which are not part of this program: answers are saved but not scored",
)
