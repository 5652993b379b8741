"""What calls cost: tokens, thoughts among them, and money by a file of prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.convert import TOKENS
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.runs.cost import Cost, Price, computed_tokens, money, read_prices
from tests.tables import each_row

STATS = {"tokens_in": 1000.0, "tokens_reused": 400.0, "tokens_out": 50.0, "tokens_thoughts": 200.0}


def said(source: Any = "hosted", **stats: float) -> Message:
    return Message("zoe", 0, "answer", "22", source=source, stats=stats or STATS)


def test_the_tokens_of_a_call_are_read_thought_and_written() -> None:
    cost = Cost()
    for message in (said(), said("model"), said("rule"), said("hosted", temperature=1.0)):
        cost.add(message)

    assert (cost.calls, cost.uncounted, cost.total) == (3, 1, 2 * 1250)
    read = "2,000 tokens read (800 of them reused), 100 tokens written"
    assert cost.tokens == f"{read}, 400 tokens of thoughts (not reported for 1 call)"


def test_tokens_that_one_server_did_not_report_are_null_in_what_is_printed() -> None:
    """A card said 0 tokens of a run whose server reported none."""
    cost = Cost()
    cost.add(said(temperature=1.0))

    assert cost.model_dump() == {"calls": 1, "uncounted": 1} | dict.fromkeys(TOKENS)
    assert Cost(calls=1, tokens_in=7).model_dump()["tokens_in"] == 7


def test_latent_steps_and_thoughts_are_computed_too_and_reused_tokens_are_not() -> None:
    assert computed_tokens(said(**STATS, thoughts=7.0)) == 1000 - 400 + 7 + 200 + 50


def prices(folder: Path, text: str) -> Path:
    (folder / "prices.csv").write_text(text)
    return folder / "prices.csv"


@each_row(
    ("row", "paid"),
    [
        ("model,in,out\nhosted:openai:gpt-5,2,8", 1000 * 2 + 250 * 8),
        ("model, in, out, cached\nopenai:gpt-5, 2, 8, 0.5", 600 * 2 + 400 * 0.5 + 250 * 8),
        ("model,in,out,cached\ngpt-5,2,8,", 1000 * 2 + 250 * 8),
    ],
)
def test_money_is_counted_per_million_with_cached_tokens_apart_and_thoughts_as_written(
    row: str, paid: float, tmp_path: Path
) -> None:
    found = read_prices(prices(tmp_path, row))

    assert money([said(), said("rule")], lambda agent: "hosted:openai:gpt-5", found) == pytest.approx(paid / 1e6)


def test_a_local_model_costs_what_its_price_says_or_nothing() -> None:
    price = {"small": Price.model_validate({"model": "small", "in": 1, "out": 1})}

    assert money([said("model")], lambda agent: "small", price) == 1250 / 1e6
    assert money([said("model")], lambda agent: "other", price) == 0


def test_money_is_unknown_where_a_server_reported_no_tokens_and_a_hosted_model_needs_a_price() -> None:
    price = {"m": Price.model_validate({"model": "m", "in": 1, "out": 1})}

    assert money([said(), said(temperature=1.0)], lambda agent: "hosted:x:m", price) is None
    with pytest.raises(UsageError, match="the price table has no model 'hosted:x:n'; it has: m; add a row"):
        money([said()], lambda agent: "hosted:x:n", price)


@each_row(
    ("text", "why"),
    [
        ("model,in,out\nm,-1,2", "in is '-1'"),
        ("model,in,out\nm,1", "Price has no 'out'"),
        ("model,in,out\nm,inf,2", "in is 'inf'"),
        ("name,in,out\nm,1,2", "has 1 row under name, in, out; expected the columns model, in, out, and optionally"),
        ("m,1,2", "has 0 rows under m, 1, 2; expected the columns model, in, out"),
        ("", "has 0 rows under no header; expected the columns model, in, out"),
        ("model,in,out\nm,1,2,3,4", "has 1 row under model, in, out; expected"),
        (b"\xff\xfe\x00", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_holds_no_prices_is_refused_in_one_line(text: str | bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    with pytest.raises(UsageError) as refused:
        read_prices(path)
    assert why in str(refused.value) and "\n" not in str(refused.value)
