"""Ways to falsify a kept run, one of each kind. The forger knows the format and recomputes whatever the kind allows:
digests of questions, payloads and log, and counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.any_types import JSON
from sottovoce.runs.manifest import digest
from sottovoce.runs.run import PAYLOADS, load_run
from sottovoce.runs.run_directory import LOG


class Forger:
    """The log of a run as a list of lines, to be changed at will and written so that all fits again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, PayloadStore(folder / PAYLOADS)
        self.lines: list[JSON] = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
        self.head, self.last = self.lines[0], self.lines[-1]

    @property
    def ids(self) -> list[str]:
        return [line["question"]["id"] for line in self.lines if line["line"] == "question"]

    def of(self, question: str) -> list[JSON]:
        """What happened in one discussion."""
        return [line for line in self.lines if "of" in line and line["of"][0] == question]

    def events(self, name: str, question: str | None = None) -> Iterator[JSON]:
        for line in self.of(question) if question else self.lines:
            yield from (event for event in line.get("events", []) if event["event"] == name)

    def said(self, question: str) -> JSON:
        """The last message of a discussion."""
        return list(self.events("said", question))[-1]

    def decided(self, question: str) -> JSON:
        (event,) = self.events("decided", question)
        decision: JSON = event["decision"]
        return decision

    def repack(self, said: JSON, change: Callable[[Payload], Payload]) -> None:
        """Change what lies under a message, in its file, address and name."""
        old = said["payload"]["sha256"]
        payload = self.store.get(old)
        assert payload is not None, "it was there"
        data = change(payload).to_bytes()
        ref = PayloadRef.of(Payload.from_bytes(data), data)
        self.store.write(ref.sha256, data)
        said["payload"] = ref.to_dict()
        if all(each["payload"]["sha256"] != old for each in self.events("said")):  # agents may say the same
            next(self.store.root.glob(f"*/{old}*")).unlink()

    def reword(self, said: JSON, text: str) -> None:
        """Another text, under the message too."""
        self.repack(said, lambda payload: Payload(replace(payload.label, text=text), payload.tensors))
        said["text"] = text

    def write(self) -> None:
        """All digests and counts as they now are."""
        self.head["questions"] = digest([line["question"] for line in self.lines if line["line"] == "question"])
        self.put()
        run = load_run(self.folder)
        self.last |= {"counts": run.counts.model_dump(), "nbytes": run.nbytes}
        before = "".join(map(_line, self.lines[:-1])).encode()
        self.last["digest"] = hashlib.sha256(before).hexdigest()
        self.put()

    def put(self) -> None:
        """The lines as they are, with the digests and counts from before."""
        (self.folder / LOG).write_text("".join(map(_line, self.lines)))


def _line(line: JSON) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


# Found in the folder, without a model


def flipped_byte(forger: Forger) -> None:
    path = next((forger.folder / PAYLOADS).glob("*/*.safetensors"))
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


def removed_without_its_payloads(forger: Forger) -> None:
    last, its = forger.ids[-1], forger.of(forger.ids[-1])
    kept = [each for each in forger.lines if each not in its and each.get("question", {}).get("id") != last]
    forger.lines = kept


def prompts(forger: Forger) -> None:
    """With another digest the prompts as asked would not be compared."""
    forger.head["prompts"] = "0" * 64


def doubled_step(forger: Forger) -> None:
    step = next(line for line in forger.of(forger.ids[0]) if line["line"] == "step")
    forger.lines.insert(forger.lines.index(step), step)


def seconds(forger: Forger) -> None:
    """Nothing else tells of them; the forger forgets the digest of the log."""
    [*_, last] = (line for line in forger.lines if line["line"] == "step")
    last["seconds"] = 0.001


def unasked(forger: Forger) -> None:
    forger.lines.remove(next(line for line in forger.lines if line["line"] == "asked"))


def relabelled(forger: Forger) -> None:
    """Another text over the payload of the one that was said."""
    forger.said(forger.ids[0])["text"] += "!"


# Found by holding it anew


def decision(forger: Forger) -> None:
    forger.decided(forger.ids[0]).update(answer="7", why="2 of 2 say 7")


def prompt(forger: Forger) -> None:
    asked = next(line for line in forger.of(forger.ids[0]) if line["line"] == "asked")
    asked["turns"][-1][1] += " Think hard."


def text(forger: Forger) -> None:
    said = next(forger.events("said", forger.ids[0]))
    forger.reword(said, f"Thus: {said['text']}")


def seed(forger: Forger) -> None:
    forger.head["seeds"] = [8]
    for settings in (forger.head["settings"], *(each["settings"] for each in forger.events("opened"))):
        settings["seed"] = 8
    for line in forger.lines:
        if "of" in line:
            line["of"][1] = 8


def forged_payload(forger: Forger) -> None:
    def louder(payload: Payload) -> Payload:
        assert payload.states is not None, "state deltas"
        return Payload(payload.label, {**payload.tensors, "states": payload.states * 1.5})

    forger.repack(next(forger.events("said", forger.ids[0])), louder)


def weights(forger: Forger) -> None:
    for model in forger.head["models"].values():
        model["weights"] = "0" * 16
    for said in forger.events("said"):
        forger.repack(said, lambda each: Payload(replace(each.label, weights="0" * 16), each.tensors))
