"""Results in a notebook: the transcript that a terminal shows, as HTML with all texts escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO

from langchain_core.messages import BaseMessage
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sottovoce.channels.message import Message
from sottovoce.core.any_types import Untyped
from sottovoce.core.text import figure, one_line, shortened, steady
from sottovoce.nodes.question import question_id
from sottovoce.report import transcript
from sottovoce.report.tables import ReadableConsole
from sottovoce.runs.api import RunResults
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import names

WIDTH = 100  # columns
PAGE = "<pre style=\"overflow-x:auto;line-height:1.2;font-family:'DejaVu Sans Mono',monospace\">{code}</pre>"
FOLDED = 20
"""Maximum number of discussions whose transcripts are folded below the table of a run."""


def html(result: object) -> str:
    """Return a run's results, a discussion, a decision or messages as HTML."""
    if isinstance(result, RunResults):
        folded = ""
        for record in result.records[:FOLDED]:
            title = escape(shortened(f"{question_id(record.question)}: {record.question['question']}"))
            folded += f"<details><summary>{title}</summary>{html(record)}</details>"
        return _drawn(_table(result.records)) + folded
    if isinstance(result, DiscussionRecord):
        return _drawn(result)
    if isinstance(result, Mapping):
        votes = [f"{vote['agent']}: {vote['answer'] or 'no answer'}" for vote in result.get("votes", [])]
        answer = Text(steady(result.get("answer") or "no answer"), "bold")
        return _drawn(answer, Text(steady(result.get("why", ""))), *(Text(steady(vote), "dim") for vote in votes))
    assert isinstance(result, Sequence), "no other type has `_repr_html_`"
    return _drawn(*map(_panel, result))


def _table(records: Sequence[DiscussionRecord]) -> Table:
    table, named = Table("question", "seed", "answer", "target", "score", box=None, pad_edge=False), names(records)
    for record in records:
        result, answer = record.result(), f"{record.status}: {one_line(record.error or '')}"
        if record.decision is not None:
            answer = one_line(result.answer or "no answer")
        name = question_id(record.question)
        cells = [named.get(name, name), str(record.seed), answer, result.target or ""]
        table.add_row(*map(Text, [*cells, "" if result.score is None else figure(result.score)]))
    return table


def _panel(message: Untyped) -> RenderableType:
    """Return the panel of a message of the board, or of one of LangChain's."""
    chat = message.model_dump() if isinstance(message, BaseMessage) else message
    if isinstance(chat, Mapping) and "content" in chat:
        return transcript.titled(steady(chat.get("name") or chat["type"]), Text(steady(str(chat["content"]))))
    return transcript.panel(message if isinstance(message, Message) else Message.from_dict(message))


def _drawn(*parts: RenderableType | DiscussionRecord) -> str:
    fixed = {"width": WIDTH, "force_terminal": True, "force_jupyter": False, "color_system": "truecolor"}
    plain = {"markup": False, "emoji": False, "highlight": False, "legacy_windows": False}
    console = ReadableConsole(file=StringIO(), record=True, **fixed, **plain)  # type: ignore[arg-type]  # one of each
    for part in parts:
        if isinstance(part, DiscussionRecord):
            transcript.print_run(console, part)
        else:
            console.print(part)
    return console.export_html(inline_styles=True, code_format=PAGE)
