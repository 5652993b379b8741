"""Prompts beside what was said: each exactly once, right above its reply, wherever a discussion is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cli.live import LiveTranscript, PipedTranscript
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.govsim import GovSim
from sottovoce.graphs.govsim import draw_games as lakes
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.report import transcript
from sottovoce.runs.record import DiscussionRecord
from tests.cli.screen import console_of, left_on_screen, text_of
from tests.runs import schemes
from tests.runs.schemes import ASKED, BOOK, CHOSEN, JUDGED, LIVED, LOOKED_UP, Once, says
from tests.runs.support import QUESTION
from tests.tables import some

TWICE = {name: [says(22)] * 2 for name in ("agent_1", "agent_2")}
SPOKEN: dict[str, tuple[Settings, schemes.Replies, Question]] = {
    "debate with summaries": (Debate(rounds=2, summarise="each"), {n: [says(22)] * 3 for n in TWICE}, QUESTION),
    "mad": (*JUDGED, QUESTION),
    "cmd": (*ASKED, QUESTION),
    "madra": (*CHOSEN, BOOK),
    "react": (*LOOKED_UP, BOOK),
    "govsim": (*LIVED, lakes(1, LIVED[0])[0] if isinstance(LIVED[0], GovSim) else QUESTION),
}
HEAD = re.compile(r"^(\w+) is asked \(|^╭─ (\w+)", re.MULTILINE)


def asked_and_said(text: str) -> Iterator[tuple[str, str]]:
    """Each agent that is asked, with the one whose message comes next."""
    heads = HEAD.findall(text)
    for at, (asked, _) in enumerate(heads):
        if asked:
            yield asked, next(said for _, said in heads[at:] if said)


@pytest.mark.parametrize("name", some([*SPOKEN], "debate with summaries", "cmd", "react"))
def test_each_prompt_is_shown_once_above_the_reply_of_its_agent(name: str, tmp_path: Path) -> None:
    settings, replies, question = SPOKEN[name]
    pipe, screen, later = console_of(100, 60), console_of(100, 60, terminal=True), console_of(100, 60)

    with PipedTranscript(pipe, prompts=True) as piped, LiveTranscript(screen, "loading", prompts=True) as live:

        def observe(run: DiscussionRecord, event: object) -> None:
            piped.observe(run, event)  # type: ignore[arg-type]
            live.observe(run, event)  # type: ignore[arg-type]

        run = schemes.held(settings, replies, tmp_path, observe, question)
    transcript.print_run(later, run, prompts=True)

    for text in (text_of(pipe), "\n".join(left_on_screen(text_of(screen))), text_of(later)):
        pairs = [*asked_and_said(text)]
        assert len(pairs) == run.cost.calls
        assert all(asked == said for asked, said in pairs)
    assert text_of(later).startswith(text_of(pipe).rstrip())


def test_prompts_of_what_was_taken_back_stay_with_it(tmp_path: Path) -> None:
    run = schemes.held(Debate(rounds=2), schemes.WATCHED, tmp_path, watch=Once("reset"))
    console = console_of(100, 60)

    transcript.print_run(console, run, prompts=True)

    pairs = [*asked_and_said(text_of(console))]
    assert len(pairs) == run.cost.calls and all(asked == said for asked, said in pairs)
