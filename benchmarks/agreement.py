"""`python -m benchmarks.agreement EXACT APPROXIMATE`: how far two saved runs of the same questions and seeds agree.

Tokens are compared up to the first that differs, in the first round in which agents hear each other; the last
comparison of a message that parts is included in KL, since both distributions there follow the same tokens.
"""

from __future__ import annotations

import sys
from math import exp
from statistics import fmean

from sottovoce.analysis.statistics import share
from sottovoce.channels.payload import Payload
from sottovoce.runs.read import load_run
from sottovoce.runs.run import Run


def divergence(first: Payload, second: Payload, at: int) -> float:
    """Return KL in nats over the recorded tokens of the first; a token that the second lacks has its least one's."""
    p, q = (
        {int(i): float(x) for i, x in zip(each.tensors["top_ids"][at], each.tensors["top_logprobs"][at], strict=True)}
        for each in (first, second)
    )
    return sum(exp(x) * (x - q.get(i, min(q.values()))) for i, x in p.items())


def main(exact: Run, approximate: Run) -> None:
    """Print the agreement."""
    apart, kl, equal, answers = [], [], [], []
    right = [[bool(run.records[key].result().score) for key in exact.records] for run in (exact, approximate)]
    for key, record in exact.records.items():
        other = approximate.records[key]
        answers.append(record.result().answer == other.result().answer)
        messages = {message.place: message for message in other.messages}
        for message in record.messages:
            same = messages.get(message.place)
            if message.round != 1 or same is None or not (message.payload and same.payload):
                continue
            a, b = message.payload.load(exact.store()), same.payload.load(approximate.store())
            n = next((i for i, (x, y) in enumerate(zip(a.ids, b.ids, strict=False)) if x != y), min(len(a), len(b)))
            equal.append(a.ids == b.ids)
            apart += (a.tensors["logprob"][:n] - b.tensors["logprob"][:n]).abs().tolist()
            kl += [divergence(a, b, at) for at in range(min(n + 1, len(a), len(b)))]
    print(f"nats a token: {fmean(apart):.4f} over {len(apart)}; KL {fmean(kl):.4f}")
    for name, found in (
        ("replies equal", equal),
        ("answers equal", answers),
        ("right, exact", right[0]),
        ("right, approximate", right[1]),
    ):
        print(f"{name}: {share(found)} of {len(found)}")


if __name__ == "__main__":
    main(*(load_run(path) for path in sys.argv[1:3]))
