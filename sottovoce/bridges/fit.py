"""Fits a bridge: reads texts with both models, solves a ridge regression, refines the map, and tests it.

Everything is drawn from one seed. The number of steps is planned once, from the minutes and the measured time of a
step; the same number, seed and models give the same bytes.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from sottovoce.bridges.pairs import head_of, read
from sottovoce.bridges.refine import Refinement, Tensors, head_tensors
from sottovoce.bridges.texts import Texts
from sottovoce.bridges.trial import trial
from sottovoce.channels.bridge import Bridge, standardized
from sottovoce.channels.bridge_files import Label, Side, check_size, save_bridge
from sottovoce.core.errors import UsageError, first_line
from sottovoce.core.files import write
from sottovoce.models import LoadedModel

TOKENS = 48_000  # positions of the sender that are read, about
WIDTH = 65  # of these in a text, about
RIDGE = 0.03  # share of a feature's variance
TEXTS_IN_PRODUCT = 20  # whose rows are multiplied at once
STATE = "state.safetensors"
TRIED = 3  # steps whose time is measured; they do not depend on how many follow
Report = Callable[[str, float], object]
"""Takes what is done now, and the share of it that is done."""


@dataclass(frozen=True)
class Settings:
    """The settings of a fit; equal ones and models give equal bytes if the steps are named."""

    minutes: float = 5
    """Time for the refinement on this machine, without reading and test."""
    steps: int | None = None
    """Steps of the refinement, instead of `minutes`."""
    seed: int = 0
    texts: Path | None = None
    tokens: int = TOKENS
    questions: int = 60
    """Questions of the test."""
    resume: bool = False
    """Go on from the state of a stopped fit, if the folder has one."""


def fit(sender: LoadedModel, receiver: LoadedModel, folder: Path, settings: Settings, report: Report) -> Label:
    """Fit a bridge into a folder, and return its label.

    A KeyboardInterrupt leaves a bridge without a test, and a state from which a call with `resume` goes on.

    Raises:
        UsageError: the models are one, the bridge would be too large, or the state is of another fit.
    """
    if sender.weights_key == receiver.weights_key:
        raise UsageError(
            f"{sender.name!r} and {receiver.name!r} have the same weights; kv needs no bridge between them"
        )
    ends = Side.of(sender), Side.of(receiver)
    texts, rng = Texts.of(sender, receiver, settings.texts), random.Random(settings.seed)
    lessons = list(islice(texts.lessons(rng), max(settings.tokens // WIDTH, 10)))
    digest = hashlib.sha256("\n".join(each.text for each in lessons).encode()).hexdigest()
    label = Label(*ends, "", digest, 0, settings.seed, 0, 0, len(head_of(receiver)))
    check_size(label)
    state, identity = folder / STATE, str(label)
    planned, saved = _read_state(state, identity) if settings.resume else (None, {})
    known, targets = read(sender, receiver, lessons, lambda n: report("reading", n / settings.tokens))
    report("solving", 0)
    center, spread = mean_and_deviation(targets)
    tensors = ridge([each.features for each in known], targets, center) | head_tensors(receiver)
    label = replace(label, tokens=sum(map(len, targets)))
    del targets
    for loaded in (sender, receiver):
        loaded.engine.forget()  # the texts that were read; no other request begins like them
    work = Refinement(receiver, tensors, spread, known, settings.seed)
    if saved:
        work.restore(saved)
    planned = planned or settings.steps
    began, first = time.monotonic(), work.done
    try:
        while planned is None or work.done < planned:
            work.step(planned)
            if planned is None and work.done == first + 1:
                began = time.monotonic()  # the first step is slower
            if planned is None and work.done > first + TRIED:
                planned = max(int(settings.minutes * 60 / (time.monotonic() - began) * TRIED), first + 2 * TRIED)
            report("refining", work.done / planned if planned else 0)
        label, bridge = _save(folder, replace(label, steps=work.done, planned=planned), tensors, work)
        carried = trial(bridge, sender, receiver, settings.questions, lambda share: report("testing", share))
        label = save_bridge(folder, replace(label, carried=carried), bridge.tensors)
    except (KeyboardInterrupt, RuntimeError, OSError, MemoryError):  # minutes of work are in the map
        _save(folder, replace(label, steps=work.done, planned=planned or 0), tensors, work)
        _save_state(work, state, identity, planned or 0)
        raise
    state.unlink(missing_ok=True)
    return label


def ridge(features: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], bias: torch.Tensor) -> Tensors:
    """Return mean and scale of texts' features (m, F), and the weight of a ridge regression to targets (m, O).

    `bias` is the mean of the targets, and that of the map.
    """
    mean, scale = mean_and_deviation(features)
    gram, weight = torch.zeros(len(mean), len(mean)), torch.zeros(len(mean), len(bias))
    for start in range(0, len(features), TEXTS_IN_PRODUCT):  # never all rows at once: they are gigabytes
        part = slice(start, start + TEXTS_IN_PRODUCT)
        rows = standardized(torch.cat([*features[part]]), mean, scale)
        gram.addmm_(rows.T, rows)
        weight.addmm_(rows.T, torch.cat([*targets[part]]) - bias)
    gram.diagonal().add_(RIDGE * sum(map(len, features)))
    return {"mean": mean, "scale": scale, "weight": torch.linalg.solve(gram, weight).contiguous(), "bias": bias}


def mean_and_deviation(parts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean and the standard deviation of each column of all rows."""
    n = sum(map(len, parts))
    mean = torch.stack([part.sum(0) for part in parts]).sum(0) / n
    squares = torch.stack([(part - mean).square().sum(0) for part in parts]).sum(0)
    return mean, (squares / max(n - 1, 1)).sqrt().clamp_min(1e-6)


def _save(folder: Path, label: Label, tensors: Tensors, work: Refinement) -> tuple[Label, Bridge]:
    """Write the map as it is now."""
    found = {**tensors, **work.map()}
    found["weight"] = found["weight"].bfloat16()
    label = save_bridge(folder, label, found)
    return label, Bridge(label, found)


def _save_state(work: Refinement, path: Path, identity: str, planned: int) -> None:
    import safetensors.torch

    found = {name: tensor.contiguous().clone() for name, tensor in work.state().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, safetensors.torch.save(found, metadata={"fit": identity, "planned": str(planned)}))


def _read_state(path: Path, identity: str) -> tuple[int | None, Tensors]:
    """Return the planned steps and the state of a stopped fit; none if there is no file."""
    if not path.is_file():
        return None, {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}
            planned, _ = int(about["planned"]), (state["weight"], state["bias"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {first_line(error)}; remove it, and fit again") from error
    if about.get("fit") != identity:
        raise UsageError(
            f"{str(path)!r} is of another fit: other models, texts or seed; name another folder, or --force"
        )
    return planned or None, state
