"""`python -m benchmarks.noisy [GAMES]`: the value of a monitor if a player's uncertainty predicts its errors.

A scripted Accuser plays WhoDunit with a rule-based Intel in the graph and returns log-probabilities as hosted models
do. It asks twice and then accuses; in one game of three it is confused and draws the character from a nearly even
distribution. A monitor is trained on unmonitored games. On as many other games it resets each game at most once, and
so does a random trigger whose threshold gives as many resets. All three variants play the same games, and the value
of a reset is measured, not assumed.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from sottovoce.analysis.monitor_dataset import collected
from sottovoce.analysis.statistics import paired_bootstrap
from sottovoce.channels.message import Message
from sottovoce.datasets.whodunit import games
from sottovoce.environments.whodunit.games import Game
from sottovoce.environments.whodunit.wording import described
from sottovoce.monitors.dataset import read_rows
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import Measure, Training
from sottovoce.monitors.threshold import equal_resets
from sottovoce.monitors.training import train
from sottovoce.nodes.guard import Guard, spent
from sottovoce.nodes.monitor_node import Intervention, Watch
from sottovoce.nodes.question import Question
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from sottovoce.settings import WhoDunit

SETTINGS = WhoDunit(golden=True)
MEASURE = Measure(positions="id", distribution="top")
CONFUSED = 1 / 3
"""Probability that the Accuser is confused when it decides."""
STEEP, EVEN = 9.0, 0.5
"""Logits of the winner above the others, when sure and when confused."""
ASKS = 2


class Noisy(BaseChatModel):
    """The Accuser, which knows the winner of each game."""

    winners: dict[str, int]
    """Winners by their descriptions."""
    logprobs: bool = True

    @property
    def _llm_type(self) -> str:
        return "noisy"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        told, place = str(messages[0].content), run_manager.metadata
        description = next(each for each in self.winners if each in told)
        rng = random.Random(json.dumps([description, *(place[name] for name in ("epoch", "round", "attempt"))]))
        if place["round"] < 2 * ASKS:
            return _reply('{"thoughts": "More.", "action": 2}', [])
        return _awards(self.winners[description], rng)


def _awards(winner: int, rng: random.Random) -> ChatResult:
    """Return a character drawn from the distribution that the reply contains."""
    steep = EVEN if rng.random() < CONFUSED else STEEP
    logits = {each: rng.gauss(0, 0.3) + steep * (each == winner) for each in range(1, 11)}
    whole = math.log(sum(map(math.exp, logits.values())))
    (chosen,) = rng.choices([*logits], [math.exp(each) for each in logits.values()])
    text = json.dumps({"thoughts": "Enough.", "action": 3, "character": chosen})
    return _reply(text, [(str(each), logit - whole) for each, logit in logits.items()])


def _reply(text: str, candidates: list[tuple[str, float]]) -> ChatResult:
    """Return a reply whose last number has these candidates and whose other tokens are certain."""
    before, number, after = text.rpartition(text.split()[-1].rstrip("}")) if candidates else (text, "", "")
    sure = [(each, 0.0 if place == 0 else -30.0) for place, each in enumerate("0123456789")]
    tokens = [(each, candidates if each == number else sure) for each in (before, number, after) if each]
    content = [
        {"token": token, "top_logprobs": [{"token": each, "logprob": value} for each, value in tops]}
        for token, tops in tokens
    ]
    reply = AIMessage(text, response_metadata={"logprobs": {"content": content}})
    return ChatResult(generations=[ChatGeneration(message=reply)])


@dataclass(frozen=True)
class Dice:
    """A random trigger at each of the Accuser's turns that has features."""

    threshold: float

    def __call__(self, run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        """Intervene at random (Any: the run and the state of every scheme)."""
        last = messages[-1]
        if last.measured is None or '"character"' not in last.text or spent(state, run.settings, "accuser", last):
            return None
        drawn = random.Random(json.dumps([state["id"], *last.place])).random()
        return Intervention("reset", "the dice say so") if drawn > self.threshold else None


def played(questions: list[Question], folder: Path, watch: Watch | None = None) -> Run:
    """Play all games."""
    found = [Game.model_validate(question["game"]) for question in questions]
    model = Noisy(winners={described(game.person(game.winner)): game.winner for game in found})
    run = Run.start(new_manifest("whodunit", SETTINGS, questions, models=model), questions, folder)
    run_all(run, SETTINGS, run.store(), models=model, watch=watch, limits=Limits(at_once=1))
    return run


def trained(run: Run, folder: Path) -> Monitor:
    """Return the best monitor of all candidates, trained on rows of the run."""
    rows, _ = collected([run], MEASURE)
    file = folder / "rows.jsonl"
    file.write_text("".join(row.model_dump_json() + "\n" for row in rows if row.role == "accuser"))
    return train(read_rows(file), "accuser", Training()).monitor


def main(n: int) -> None:
    """Print successes and resets of the three variants, and the difference between monitor and random trigger."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        monitor = trained(played(games(n, SETTINGS, 1), folder / "seen"), folder)
        others = games(n, SETTINGS, 2)
        free = played(others, folder / "free")
        guarded = played(others, folder / "guarded", Guard(monitor))
        resets = _resets(guarded)
        dice = played(others, folder / "dice", Dice(equal_resets(np.ones(n, dtype=np.intp), resets)))
        print(
            f"monitor: {', '.join(monitor.features)}, degree {monitor.degree}, triggers above {monitor.threshold:.2f}"
        )
        for told, run in (("nobody", free), ("the monitor", guarded), ("dice", dice)):
            print(f"watched by {told}: {np.mean(_won(run)):.1%} of {n} games won, {_resets(run)} reset")
        found = paired_bootstrap([a - b for a, b in zip(_won(guarded), _won(dice), strict=True)])
        between = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"
        print(f"the monitor is worth {100 * found.value:+.1f} points more than dice (95 % {between}; {n} games)")


def _won(run: Run) -> list[float]:
    return [record.decision["score"] or 0.0 for record in run.records.values() if record.decision is not None]


def _resets(run: Run) -> int:
    return sum(len(record.interventions) for record in run.records.values())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
