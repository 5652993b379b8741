"""`python -m sottovoce.training`: train the bundled model, or go on where a run was stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from sottovoce.models import BUNDLED_FOLDER
from sottovoce.training.plan import AGAIN, Plan
from sottovoce.training.publish import publish
from sottovoce.training.train import Run

WORK = Path(__file__).parent / "work"


def main() -> None:
    """Train, then write the model; the card says where its figures come from."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.training", description=__doc__)
    parser.add_argument("--again", action="store_true", help="teach today's prompts to the weights that ship")
    parser.add_argument("--work", type=Path, help="checkpoints and log; an unfinished run there goes on")
    parser.add_argument("--out", type=Path, default=BUNDLED_FOLDER, help="where the trained model is written")
    arguments = parser.parse_args()
    work = arguments.work or WORK / ("again" if arguments.again else "bundled")
    run = Run(work, AGAIN, BUNDLED_FOLDER) if arguments.again else Run(work, Plan())
    if run.resume():
        print(f"going on after {run.progress.tokens / 1e6:.2f} M tokens")
    run.train()
    publish(run, arguments.out)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
