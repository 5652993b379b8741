"""Recorded steps: the same bits without the model's own code, and only where nobody could tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from sottovoce.models import Feed, LoadedModel, Record, Reply, Request, Sampling, assemble
from sottovoce.models.traced import WARM
from tests.models.support import LIMIT, busy, fresh, words
from tests.support import request, same_reply, tiny_model, tiny_tokenizer

LLAMA = {"num_key_value_heads": 4}
EVERYTHING = Record((0, 1), stats=True, top=3)
CALM = 0.03  # weights under which means fed back do not amplify rounding
MEAN: dict[str, Any] = {"feed": Feed("mean"), "sampling": Sampling(1.0)}


class Watched(nn.Module):
    """A part of a model that counts how often its own code runs, and may do more."""

    def __init__(self, inner: nn.Module, more: Callable[[torch.Tensor], torch.Tensor] = lambda out: out) -> None:
        super().__init__()
        self.inner, self.more, self.calls = inner, more, 0

    def forward(self, *inputs: Any) -> torch.Tensor:
        self.calls += 1
        return self.more(self.inner(*inputs))


def watched(
    family: str = "llama", more: Callable[[torch.Tensor], torch.Tensor] = lambda out: out, **shape: Any
) -> tuple[LoadedModel, Watched]:
    """A loaded model that takes nothing over, and a part of its first layer."""
    model = tiny_model(family, **{**(LLAMA if family == "llama" else {}), **shape})
    loaded = assemble("watched", model, tiny_tokenizer(), reuse=False)
    layer: Any = loaded.network.layers[0]
    layer.mlp = part = Watched(layer.mlp, more)
    return loaded, part


@contextmanager
def unrecorded(loaded: LoadedModel) -> Iterator[None]:
    """A hook that does nothing: no step is made by a recording."""
    handle = loaded.model.register_forward_hook(lambda *_: None)
    yield
    handle.remove()


def company(n: int = 12) -> list[Request]:
    """Ids and rows in steps together, of different lengths."""
    return [
        request((words(9),), n, record=EVERYTHING),
        request((words(3),), n, record=EVERYTHING, **MEAN),
        request((words(20),), n, record=EVERYTHING, sampling=Sampling(0.7, seed=1)),
    ]


def together(loaded: LoadedModel, asked: list[Request]) -> list[Reply]:
    with busy(loaded.engine):
        submitted = [loaded.engine.submit(each) for each in asked]
    return [each.result(LIMIT) for each in submitted]


def record(loaded: LoadedModel) -> None:
    """Make every kind of step often enough: alone and in company, of ids and of rows."""
    n = WARM + 1
    loaded.engine.run(request(max_new=n))
    loaded.engine.run(request(max_new=n, **MEAN))
    together(loaded, [request((words(k),), n) for k in (3, 9)])
    together(loaded, company(n))


def bits(reply: Reply) -> list[torch.Tensor]:
    assert reply.stats is not None
    numbers = [getattr(reply.stats, name) for name in reply.stats.__dataclass_fields__]
    return [torch.tensor(reply.ids), *reply.states.values(), *reply.rows.values(), *numbers]


def equal(found: list[Reply], expected: list[Reply]) -> bool:
    pairs = [pair for both in zip(found, expected, strict=True) for pair in zip(*map(bits, both), strict=True)]
    return all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "gemma2", "phi3-window"])
def test_recorded_steps_have_the_bits_of_the_models_own_code(family: str) -> None:
    loaded, part = watched(family)
    record(loaded)
    part.calls = 0

    recorded = together(loaded, company())
    calls = part.calls
    with unrecorded(loaded):
        plain = together(loaded, company())

    assert equal(recorded, plain)
    assert (calls, part.calls - calls) == (2, 2 + 12)  # the gate's prompt and the others', then each step


def test_a_step_is_recorded_once_it_was_made_often() -> None:
    loaded, part = watched()
    loaded.engine.run(request(max_new=1))
    part.calls = 0

    loaded.engine.run(request(max_new=WARM))  # a prompt, and steps for all tokens but the last
    assert part.calls == WARM
    loaded.engine.run(request(max_new=40))
    part.calls = 0
    loaded.engine.run(request(max_new=40))
    assert part.calls == 1


def test_a_recording_with_other_bits_is_not_used() -> None:
    """Grouped heads without a mask: torch's attention adds up in another order when it is recorded."""
    loaded, part = watched(num_key_value_heads=2)
    record(loaded)
    part.calls = 0

    loaded.engine.run(request(max_new=9))
    assert part.calls == 9
    together(loaded, company())
    assert part.calls == 9 + 2  # with masks, in company, steps are recorded ones


def test_hooks_that_transformers_leaves_behind_are_not_somebody_elses() -> None:
    loaded, part = watched()
    record(loaded)
    loaded.model(torch.tensor([[5, 6, 7]]), output_hidden_states=True)
    part.calls = 0

    loaded.engine.run(request(max_new=9))

    assert part.calls == 1


def test_somebody_elses_hook_is_called_at_every_step_after_recording_too() -> None:
    loaded, _ = watched()
    record(loaded)
    seen: list[int] = []

    handle = loaded.network.layers[1].register_forward_hook(lambda _module, _inputs, out: seen.append(out.shape[1]))
    loaded.engine.run(request((words(9),), 6))
    handle.remove()
    loaded.engine.run(request((words(9),), 6))

    assert seen == [9, *[1] * 5]


def test_somebody_elses_hook_changes_what_is_said_while_it_is_there() -> None:
    loaded, _ = watched()
    record(loaded)
    asked = request((words(9),), 12, record=EVERYTHING)
    before = loaded.engine.run(asked)

    def steer(_module: nn.Module, _inputs: object, out: torch.Tensor) -> torch.Tensor:
        return out + 1

    handle = loaded.network.layers[0].register_forward_hook(steer)
    steered = loaded.engine.run(asked)
    other, _ = watched()
    other.network.layers[0].register_forward_hook(steer)
    handle.remove()

    assert equal([steered], [other.engine.run(asked)]) and not same_reply(steered, before)
    assert equal([loaded.engine.run(asked)], [before])


def test_a_hook_on_all_modules_is_called_at_every_step() -> None:
    loaded, part = watched()
    record(loaded)
    seen: list[bool] = []

    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module is part))
    loaded.engine.run(request((words(9),), 6))
    handle.remove()

    assert sum(seen) == 6


def by_rows(out: torch.Tensor) -> torch.Tensor:
    """Code that goes another way for a larger batch than the one that is recorded."""
    return -out if out.shape[0] > 3 else out


def by_length(out: torch.Tensor) -> torch.Tensor:
    """Code with a number that the recorder takes for a constant."""
    return out * (1 + len(out))


def by_value(out: torch.Tensor) -> torch.Tensor:
    """Code that looks at its numbers."""
    return out * float(out.abs().max())


def refusing(out: torch.Tensor) -> torch.Tensor:
    """Code that cannot be recorded."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # torch types little of it
        raise RuntimeError("not under tracing")
    return out


@pytest.mark.parametrize("more", [by_rows, by_length, by_value, refusing])
def test_code_that_no_recording_repeats_runs_as_ever(more: Callable[[torch.Tensor], torch.Tensor]) -> None:
    loaded, part = watched(more=more)
    record(loaded)
    part.calls = 0

    found = together(loaded, [request((words(9, seed=n),), 6, record=EVERYTHING) for n in range(6)])
    calls = part.calls
    with unrecorded(loaded):
        plain = together(loaded, [request((words(9, seed=n),), 6, record=EVERYTHING) for n in range(6)])

    assert equal(found, plain)
    assert calls == part.calls - calls


@pytest.mark.parametrize("how", ["in place", "as new tensors"])
def test_weights_that_changed_are_seen(how: str) -> None:
    loaded, _ = watched()
    record(loaded)
    asked = request((words(9),), 12, record=EVERYTHING)
    before = loaded.engine.run(asked)

    for parameter in loaded.network.layers[1].parameters():
        parameter.data = -parameter.data if how == "as new tensors" else parameter.data.neg_()

    after = loaded.engine.run(asked)
    with unrecorded(loaded):
        assert equal([after], [loaded.engine.run(asked)])
    assert not same_reply(after, before)


def test_engines_of_one_model_share_its_recordings() -> None:
    loaded, part = watched()
    record(loaded)
    part.calls = 0

    twin = loaded.engine.twin(reuse=False)
    twin.run(request(max_new=9))

    assert part.calls == 1


def replaced_weights(loaded: LoadedModel) -> None:
    last: Any = loaded.network.layers[1]
    last.mlp.down_proj.weight = nn.Parameter(3 * last.mlp.down_proj.weight.detach(), requires_grad=False)


def replaced_module(loaded: LoadedModel) -> None:
    last: Any = loaded.network.layers[1]
    last.mlp = nn.Identity()


def replaced_code(loaded: LoadedModel) -> None:
    last: Any = loaded.network.layers[1]
    last.mlp.forward = lambda hidden: 0 * hidden


def replaced_number(loaded: LoadedModel) -> None:
    last: Any = loaded.network.layers[1]
    last.self_attn.scaling *= 3


@pytest.mark.parametrize("change", [replaced_weights, replaced_module, replaced_code, replaced_number])
def test_a_model_that_was_changed_is_neither_replayed_nor_reused(change: Callable[[LoadedModel], None]) -> None:
    loaded = fresh()
    record(loaded)
    asked = request((words(30),), 9, record=EVERYTHING)
    before = loaded.engine.run(asked)

    change(loaded)
    found = loaded.engine.run(asked)

    expected = assemble("changed", loaded.model, loaded.tokenizer).engine.run(asked)
    assert found.usage.reused == 0
    assert same_reply(found, expected) and not same_reply(found, before)
