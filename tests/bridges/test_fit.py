"""A fit: it repeats, it can be stopped and resumed, and what it learns is what a discussion reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.normalizers import Lowercase

from sottovoce.bridges.fit import RIDGE, STATE, fit, mean_and_deviation, ridge
from sottovoce.bridges.pairs import keys_values, read, unrotated
from sottovoce.bridges.refine import RATE, Refinement, head_tensors, prompt_of, repeats
from sottovoce.bridges.texts import Lesson
from sottovoce.channels.bridge import Bridge, handed, rows_of, standardized
from sottovoce.channels.bridge_files import LABEL, PIECES, TENSORS, read_label
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.models import Ids, Record, Request, Stop, assemble
from tests.bridges.support import HUMAN, SIZE, STEPS, deep, drawn, fitted, narrow, other_tokenizer, quick
from tests.support import close, tiny_model


class StopAt:
    """Reports to nobody, and interrupts when this is done for the n-th time."""

    def __init__(self, what: str, n: int) -> None:
        self.what, self.left = what, n

    def __call__(self, what: str, share: float) -> None:
        self.left -= what == self.what
        if self.left == 0:
            self.left = -1
            raise KeyboardInterrupt


def both(folder: Path) -> tuple[bytes, bytes]:
    return (folder / LABEL).read_bytes(), (folder / TENSORS).read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bridge whose fit was not stopped."""
    folder = tmp_path_factory.mktemp("bridges") / "whole"
    fitted(narrow(), deep(), folder)
    return folder


# The same again


def test_equal_fits_give_equal_bytes(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: texts were read in batches of those that had arrived in time, and from prefixes that were in memory."""
    monkeypatch.setattr("sottovoce.models.engine.loop.QUIET_SECONDS", 0)
    fitted(narrow(), deep(), tmp_path)
    assert both(tmp_path) == both(whole)


def test_a_fit_in_minutes_is_repeated_by_its_number_of_steps(tmp_path: Path) -> None:
    """Seen: the rate of the first steps, whose time is measured, was that of a longer fit."""
    label = fitted(narrow(), deep(), tmp_path / "minutes", steps=None, minutes=1e-9)
    fitted(narrow(), deep(), tmp_path / "steps", steps=label.steps)
    assert label.steps == label.planned > STEPS and both(tmp_path / "minutes") == both(tmp_path / "steps")


@pytest.mark.parametrize(("what", "n"), [("refining", 1), ("refining", STEPS), ("testing", 1)])
def test_a_fit_that_was_stopped_leaves_a_bridge_and_goes_on_to_equal_bytes(
    what: str, n: int, whole: Path, tmp_path: Path
) -> None:
    """Seen: one that was stopped in its test could not go on, and one into a new folder was lost."""
    folder = tmp_path / "new" / "bridge"
    with pytest.raises(KeyboardInterrupt):
        fit(narrow(), deep(), folder, quick(), StopAt(what, n))
    label = read_label(folder)
    assert (label.carried, label.steps, label.planned) == (None, min(n, STEPS) if what == "refining" else STEPS, STEPS)
    assert (folder / STATE).is_file()

    fitted(narrow(), deep(), folder, resume=True)
    assert both(folder) == both(whole) and not (folder / STATE).exists()


def test_an_interrupt_within_a_step_of_adam_repeats_no_step(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: the signal came between Adam's step and our own count."""
    step, calls = torch.optim.Adam.step, []

    def stepping(*arguments: Any) -> None:
        step(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch.optim.Adam, "step", stepping)
    with pytest.raises(KeyboardInterrupt):
        fitted(narrow(), deep(), tmp_path)
    fitted(narrow(), deep(), tmp_path, resume=True)
    assert both(tmp_path) == both(whole) and len(calls) == STEPS


def test_a_fit_in_minutes_that_was_stopped_plans_as_many_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: the time of one step was taken for that of three."""
    clock = [0.0]

    def step(work: Refinement, planned: int | None) -> None:
        clock[0] += 2
        work.adam.state.setdefault(work.weight, {})["step"] = torch.tensor(float(work.done + 1))

    monkeypatch.setattr(Refinement, "step", step)
    monkeypatch.setattr("sottovoce.bridges.fit.time.monotonic", lambda: clock[0])
    with pytest.raises(KeyboardInterrupt):
        fit(narrow(), deep(), tmp_path, quick(steps=None, minutes=1), StopAt("refining", 3))
    label = fitted(narrow(), deep(), tmp_path, steps=None, minutes=1, resume=True)
    assert label.steps == label.planned == 30


def test_a_full_disk_leaves_the_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: the state, six times as large, was written first."""

    def full(*arguments: Any) -> None:
        raise RecordError("no space left")

    monkeypatch.setattr("sottovoce.bridges.fit._save_state", full)
    with pytest.raises(RecordError):
        fit(narrow(), deep(), tmp_path, quick(), StopAt("refining", 2))
    assert read_label(tmp_path).steps == 2


def test_a_bridge_that_could_not_be_read_is_not_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.channels.bridge_files.LARGEST", 1000)
    with pytest.raises(UsageError, match=r"from 'qwen2-0' to 'deep' has .* bytes; at most 1,000 are read"):
        fitted(narrow(), deep(), tmp_path)


def test_a_fit_that_is_stopped_before_its_first_step_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(narrow(), deep(), tmp_path, quick(), StopAt("reading", 2))
    assert [*tmp_path.iterdir()] == []


def test_a_state_of_another_fit_or_a_damaged_one_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(narrow(), deep(), tmp_path, quick(), StopAt("refining", 2))
    with pytest.raises(UsageError, match="is of another fit: other models, texts or seed") as refusal:
        fitted(narrow(), deep(), tmp_path, seed=1, resume=True)
    assert "\n" not in str(refusal.value)
    (tmp_path / STATE).write_bytes(b"no tensors")
    with pytest.raises(UsageError, match=r"cannot be read: .*; remove it, and fit again") as refusal:
        fitted(narrow(), deep(), tmp_path, resume=True)
    assert "\n" not in str(refusal.value)


def test_a_model_needs_no_bridge_to_itself(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have the same weights; kv needs no bridge between them"):
        fitted(narrow(), narrow(), tmp_path)


def test_a_template_that_begins_with_the_user_s_text_is_refused(tmp_path: Path) -> None:
    tokenizer = other_tokenizer().__class__(
        tokenizer_object=other_tokenizer().backend_tokenizer,
        eos_token="<|im_end|>",
        chat_template="{% for message in messages %}{{ message.content }}\n{% endfor %}",
    )
    bare = assemble("bare", tiny_model("llama", vocab_size=SIZE, max_position_embeddings=4096), tokenizer)
    with pytest.raises(UsageError, match="the chat template of 'bare' begins with the user's text"):
        fitted(narrow(), bare, tmp_path)


# Pairs


@pytest.mark.parametrize("is_back", [False, True])
def test_a_token_is_paired_with_the_position_that_has_read_to_its_end(is_back: bool) -> None:
    ends = (deep(), narrow()) if is_back else (narrow(), deep())
    lesson = Lesson("The boat of Mia is named Zor. \u00ef\u20ac")
    (known,), targets = read(*ends, [lesson], lambda n: None)
    ours, theirs = (loaded.chat.ids(lesson.text, plain=True) for loaded in ends)
    (sent,) = keys_values(ends[0], [ours], keys=False)
    rows = torch.cat([rows_of(sent.values), ends[0].table.rows[list(ours)]], dim=1)
    spans = [loaded.detokenizer(special=True).spans(ids) for loaded, ids in zip(ends, (ours, theirs), strict=True)]
    assert len(known.features) == len(theirs) == len(targets[0])
    before, which = -1, 0
    for row, (_, end) in zip(known.features, spans[1], strict=True):
        at = next(i for i, (_, own) in enumerate(spans[0]) if own >= end)
        assert torch.equal(row[: rows.shape[1]], rows[at])
        previous = row[rows.shape[1] : -PIECES]
        assert torch.equal(previous, ends[0].table.rows[ours[at - 1]] if at else torch.zeros_like(previous))
        which = which + 1 if at == before else 0
        assert row[-PIECES:].tolist() == [float(i == min(which, PIECES - 1)) for i in range(PIECES)]
        before = at


def test_the_receiver_reads_what_the_sender_s_tokenizer_makes_of_a_text() -> None:
    """Seen: a tokenizer that writes small letters ended in a traceback."""
    small = other_tokenizer().__class__(tokenizer_object=other_tokenizer().backend_tokenizer, chat_template=HUMAN)
    small.backend_tokenizer.normalizer = Lowercase()
    sender = assemble("small", deep().model, small)
    (known,), targets = read(sender, narrow(), [Lesson("The boat of MIA is named ZOR.")], lambda n: None)
    assert len(known.features) == len(targets[0]) == len(narrow().chat.ids("the boat of mia is named zor.", plain=True))


def test_reading_many_texts_fills_no_cache_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lessons = [Lesson(f"Room {i} belongs to {name}.") for i in range(4) for name in ("Mia", "Zor", "Ilse", "Ada")]
    grown = list[int]()
    for together in (len(lessons), 4):
        monkeypatch.setattr("sottovoce.bridges.pairs.TEXTS_IN_CACHE", together)
        sizes = list[int]()
        read(deep(), narrow(), lessons, lambda n, sizes=sizes: sizes.append(deep().engine.statistics.cache))  # type: ignore[misc]
        grown.append(max(sizes) - min(sizes))
    assert 0 < 2 * grown[1] < grown[0]


def test_keys_are_learned_as_they_were_before_their_rotation() -> None:
    """A text behind a longer beginning: the first layer's keys, which know no other position, are the same."""
    text = deep().chat.ids("The boat of Mia is named Zor.", plain=True)
    (near,) = keys_values(deep(), [text], keys=True)
    request = Request((Ids(text), Ids(text, "text")), Stop(0), record=Record(cache=("text",)))
    far = deep().engine.run(request).cache
    assert far is not None
    assert not close(far.keys[:1], near.keys[:1], 1e-2)
    assert close(unrotated(deep(), far)[:1], unrotated(deep(), near)[:1], 1e-4)


def test_a_ridge_regression_balances_what_it_leaves_open_and_its_penalty() -> None:
    chance = torch.Generator().manual_seed(0)
    rows, weight = torch.randn(4000, 6, generator=chance) * 3 + 1, torch.randn(6, 4, generator=chance)
    targets = rows @ weight + 2
    found = ridge(rows.split(90), targets.split(90), targets.mean(0))
    features = standardized(rows, found["mean"], found["scale"])
    left = rows @ weight + 2 - found["bias"] - features @ found["weight"]
    assert close(features.T @ left, RIDGE * len(rows) * found["weight"], 1e-3)  # where the derivative is 0
    assert close(found["weight"] * (1 + RIDGE) / found["scale"][:, None], weight, 0.05)  # features hardly correlate


# Refinement


@pytest.fixture
def work() -> Refinement:
    return refinement(
        Lesson("Mia has 3 apples.", (("What is it?", ""), ("And then?", ""))), Lesson("22 pears", (("Why?", ""),))
    )


def refinement(*lessons: Lesson, **more: Any) -> Refinement:
    known, targets = read(narrow(), deep(), lessons, lambda n: None)
    center, spread = mean_and_deviation(targets)
    tensors = ridge([each.features for each in known], targets, center) | head_tensors(deep())
    return Refinement(deep(), tensors, spread, known, 0, **more)


def test_the_loss_is_that_of_a_reply_in_the_engine_also_in_a_batch(work: Refinement) -> None:
    """The wanted replies are empty: the loss is the surprise of the token that ends them."""
    label, _ = drawn(narrow(), deep())
    bridge = Bridge(label, {**work.tensors, **work.map()})
    examples = [(each, request, reply) for each in work.lessons for request, reply in each.lesson.asked]
    surprises = []
    for each, request, _ in examples:
        (sent,) = keys_values(narrow(), [narrow().chat.ids(each.lesson.text, plain=True)], keys=False)
        piece = bridge.piece(handed(sent, narrow()), range(len(sent.at)), deep(), first=True)
        record = Record(stats=True, top=SIZE)
        reply = deep().engine.run(Request((piece, Ids(prompt_of(deep(), request))), Stop(1), record=record))
        assert reply.stats is not None
        at = reply.stats.top_ids[0].tolist().index(deep().stop_ids[0])
        surprises.append(-float(reply.stats.top_logprobs[0, at]))
    alone = [float(work.loss([example]).detach()) for example in examples]
    assert alone == pytest.approx(surprises, rel=1e-3)
    assert float(work.loss(examples).detach()) == pytest.approx(sum(alone) / len(alone), rel=1e-4)


def facts() -> list[Lesson]:
    """Enough short lessons for examples and held-out ones."""
    lessons = [
        Lesson(f"Mia has {i} {word}.", ((f"What has she, {i}?", word), ("Repeat.", f"Mia has {i} {word}.")))
        for i, word in enumerate(["apples", "pears", "keys"] * 6)
    ]
    return lessons


def test_a_refinement_lowers_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.bridges.refine.RATE", 1e-2)
    work = refinement(*facts())
    assert work.questions and not any(map(repeats, work.questions))
    assert work.repeated and all(map(repeats, work.repeated))
    examples = [*work.questions[:4], *work.repeated[:4]]
    first = float(work.loss(examples).detach())
    for _ in range(12):
        work.step(12)
    assert float(work.loss(examples).detach()) < first - 0.1


def test_a_map_that_begins_nearly_right_learns_at_a_lower_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []
    for far in (1e-3, 1e3, 2e3):
        monkeypatch.setattr("sottovoce.bridges.refine.FAR", far)
        rates.append(refinement(*facts()).rate)
    assert rates[0] == RATE > rates[1] > 0 and rates[1] == pytest.approx(4 * rates[2])


def test_what_the_receiver_is_stays_as_it_was() -> None:
    before = {name: parameter.clone() for name, parameter in deep().model.named_parameters()}
    work = refinement(*facts())
    work.step(3)
    after = dict(deep().model.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in after.values())


def test_a_receiver_that_spells_learns_from_questions_alone() -> None:
    """Seen: no text was short enough to be repeated, and a step failed."""
    work = refinement(*(replace(each, asked=each.asked[:1]) for each in facts()))
    assert work.repeated == [] and work.step(3) > 0


def test_a_step_depends_on_the_number_of_steps_only_after_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.bridges.refine.WARM", 2)
    weights = []
    for planned in (5, 50):
        work = refinement(*facts())
        for _ in range(3):
            work.step(planned)
        weights.append(work.weight.detach().clone())
        work.step(planned)
        weights.append(work.weight.detach().clone())
    assert torch.equal(weights[0], weights[2]) and not torch.equal(weights[1], weights[3])


# The test


def test_what_was_carried_is_counted_four_ways(whole: Path) -> None:
    carried = read_label(whole).carried
    assert carried is not None and carried.questions == 2
    assert all(0 <= right <= 2 for right in (carried.bridge, carried.own, carried.shuffled, carried.nothing))
