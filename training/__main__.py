"""`python -m sottovoce.training`: train the bundled model, or resume an interrupted run."""

from __future__ import annotations

import argparse
from pathlib import Path

from sottovoce.models import BUNDLED_FOLDER
from sottovoce.training.publish import publish
from sottovoce.training.train import AGAIN, Plan, Run

WORK = Path(__file__).parent / "work"


def main() -> None:
    """Train the model, write it, and print where it is."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.training", description=__doc__)
    parser.add_argument("--again", action="store_true", help="train the shipped weights further on the current prompts")
    parser.add_argument("--work", type=Path, help="folder of checkpoints and log; an unfinished run there is resumed")
    parser.add_argument("--out", type=Path, default=BUNDLED_FOLDER, help="folder to write the trained model to")
    arguments = parser.parse_args()
    work = arguments.work or WORK / ("again" if arguments.again else "bundled")
    run = Run(work, AGAIN, BUNDLED_FOLDER) if arguments.again else Run(work, Plan())
    if run.resume():
        print(f"resuming after {run.progress.tokens / 1e6:.2f} M tokens")
    run.train()
    publish(run, arguments.out)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
