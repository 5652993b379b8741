"""`python -m benchmarks.degenerate`: how many replies show signs of degeneration, by protocol and temperature.

One reply to each question of `small_questions.py`, with the product's prompts. Replies with signs are printed below
the table.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from benchmarks.small_questions import KINDS, small_questions
from sottovoce.channels import create
from sottovoce.channels.degenerate import WINDOW, signs
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Speech
from sottovoce.datasets.arithmetic import questions
from sottovoce.models import LoadedModel, Request, load
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.prompts.render import Prompts
from sottovoce.report.tables import table

LONGEST = 96
WAYS = ("nl:0", "nl:0.7", "nl:1", "cipher:0.2", "cipher:0.4", "cipher:1")
HEAD = f"way | replies | of {WINDOW} tokens or more | repeats itself | unlikely | either"


def mixed_questions(model: str, n: int) -> list[Question]:
    """Return equally many questions of each kind; for the bundled model only arithmetic, which it was trained on."""
    if model == "bundled":
        return list(questions(n, 11))
    return [question for kind in KINDS for question in small_questions(kind, n // len(KINDS))]


def spoken(loaded: LoadedModel, samples: list[Question], way: str) -> list[Payload]:
    """Return the payload of one reply to each question."""
    name, _, temperature = way.partition(":")
    protocol, prompts, own = create(name), Prompts(), replace(loaded.sampling, temperature=float(temperature))

    def request(seed: int, question: Question) -> Request:
        turns = PromptBuilder(prompts, question, None, answers="sentence").independent()
        prompt = protocol.encode_prompt(turns, loaded, lambda ref: ref.load())
        return protocol.make_request(prompt, loaded, Speech(LONGEST, replace(own, seed=seed)))

    replies = loaded.engine.run_all([request(seed, question) for seed, question in enumerate(samples)])
    return [protocol.record_reply(reply, loaded) for reply in replies]


def counts(payloads: list[Payload]) -> list[str]:
    """Return the cells of a row after the first."""
    flags = [signs(payload) for payload in payloads]
    long = sum(len(payload) >= WINDOW for payload in payloads)
    repeats, unlikely = (sum(any(word in sign for sign in each) for each in flags) for word in ("repeats", "unlikely"))
    return [str(count) for count in (len(payloads), long, repeats, unlikely, sum(map(bool, flags)))]


def main() -> None:
    """Ask each way, count, and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.degenerate", description=__doc__)
    parser.add_argument("-n", type=int, default=40)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--way", nargs="*", default=WAYS, help="PROTOCOL:TEMPERATURE")
    given = parser.parse_args()
    loaded, samples = load(given.model), mixed_questions(given.model, given.n)
    rows, shown = list[list[str]](), list[str]()
    for way in given.way:
        payloads = spoken(loaded, samples, way)
        rows.append([way, *counts(payloads)])
        shown += [f"{way}: {', '.join(flags)}: {one.label.text!r}" for one in payloads if (flags := signs(one))]
        print(rows[-1], flush=True)
    print("\n".join([table(HEAD, rows), *shown]))


if __name__ == "__main__":
    main()
