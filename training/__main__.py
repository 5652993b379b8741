"""`python -m sottovoce.training`: train the bundled model, or go on where a run was stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from sottovoce.models import BUNDLED_FOLDER
from sottovoce.training.publish import publish
from sottovoce.training.train import Run

WORK = Path(__file__).parent / "work" / "bundled"


def main() -> None:
    """Train, then write the model; the card and its figures come from `sottovoce.training.measure`."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.training", description=__doc__)
    parser.add_argument("--work", type=Path, default=WORK, help="checkpoints and log; an unfinished run there goes on")
    parser.add_argument("--out", type=Path, default=BUNDLED_FOLDER, help="where the trained model is written")
    arguments = parser.parse_args()
    run = Run(arguments.work)
    if run.resume():
        print(f"going on after {run.progress.tokens / 1e6:.2f} M tokens")
    run.train()
    publish(run, arguments.out)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
