"""How often agents with one of two facts each name the answer in round 2: `python -m benchmarks.two_facts RUN ...`.

The holder of the last fact, which names the answer, must keep it; the holder of the first must learn it.
"""

import sys
from collections import Counter

from sottovoce.nodes.question import passages_of
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import load_run

LINE = (
    "{run}: right {right} of {done}; first fact {learnt} of {first}; last fact {kept} of {last}; ties {won} of {ties}"
)


def counts(records: list[DiscussionRecord]) -> Counter[str]:
    """Return the counts of `LINE` over the discussions that are over; a tie counts as won if its answer is right."""
    found = Counter(dict.fromkeys(("right", "done", "learnt", "first", "kept", "last", "won", "ties"), 0))
    for record in records:
        if record.decision is None:
            continue
        right, is_tie = bool(record.decision["score"]), bool(record.decision.get("tied"))
        found.update(done=1, right=right, ties=is_tie, won=is_tie and right)
        first_attempts = {each.agent: each for each in reversed(record.messages) if each.round == 1}
        for message in first_attempts.values():
            answer, documents = str(record.question["target"]).lower(), passages_of(record.question, message.agent)
            last, named = any(answer in str(each).lower() for each in documents), answer in message.full_text.lower()
            found.update(last=last, kept=last and named, first=not last, learnt=named and not last)
    return found


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(LINE.format(run=folder, **counts([*load_run(folder).records.values()])))
