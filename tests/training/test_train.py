from pathlib import Path

import pytest
import torch

from sottovoce.training import debates, tokenizer
from sottovoce.training.publish import publish, record
from sottovoce.training.skills import corpus
from sottovoce.training.tokenizer import carried
from sottovoce.training.train import TALKS, Plan, Run, Stage

TINY = Plan(hidden=32, layers=2, heads=2, mlp=64, warm_up=5, stages=(Stage("copy", 90_000, 5e-3, 0.1),))


class Killed(Run):
    """A run that dies in its second chunk, before anything of it is saved."""

    def _log(self, stage: Stage, loss: float) -> None:
        if self.progress.chunk == 2:
            raise KeyboardInterrupt
        super()._log(stage, loss)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.train(corpus(0, n=100), size=400).save_pretrained(folder)
    return folder


def tiny(kind: type[Run], words: Path, folder: Path, begin: Path | None = None) -> Run:
    folder.mkdir(exist_ok=True)
    for path in words.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return kind(folder, TINY, begin, every=0.0, workers=0)


def losses(run: Run) -> list[float]:
    lines = (run.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [float(line.split('"loss": ')[1].split(",")[0]) for line in lines]


@pytest.mark.slow
def test_a_short_run_learns_and_a_killed_one_ends_in_the_same_weights(words: Path, tmp_path: Path) -> None:
    unbroken = tiny(Run, words, tmp_path / "unbroken")
    unbroken.train()
    with pytest.raises(KeyboardInterrupt):
        tiny(Killed, words, tmp_path / "killed").train()
    resumed = tiny(Run, words, tmp_path / "killed")
    assert resumed.resume()
    resumed.train()

    assert losses(unbroken)[-1] < losses(unbroken)[0] - 0.5
    assert resumed.progress.steps == unbroken.progress.steps
    for left, right in zip(unbroken.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_stage_may_warm_up_again_before_its_rate_falls(words: Path, tmp_path: Path) -> None:
    run = tiny(Run, words, tmp_path / "run")
    stage = Stage("copy", 1000, 5e-3, 0.0, warm_up=100)
    rates = []
    for done in (0, 50, 100, 500, 1000):
        run.progress.stage_tokens, run.progress.steps = done, 1000
        rates.append(run._lr(stage))
    assert rates[0] < rates[1] < rates[2]
    assert rates[2] > rates[3] > rates[4] == 0.0


def test_a_stage_learns_again_from_the_last_talks_of_another(words: Path, tmp_path: Path) -> None:
    run = tiny(Run, words, tmp_path / "run")
    played = run._talks(Stage("first", 0, 0.0, 0.0, talks=4), 1)
    assert played
    assert [run._talks(Stage("second", 0, 0.0, 0.0, talks_of="first"), part) for part in (0, 1)] == [played] * 2


def test_self_play_is_the_same_for_the_same_weights_and_key(words: Path, tmp_path: Path) -> None:
    run = tiny(Run, words, tmp_path / "run")
    first, again = (debates.played(run.model, run.tokenizer, 4, "key") for _ in range(2))
    assert first == again
    assert all(set(said) == set(talk.agents) for talk in first for said in talk.said)
    assert TALKS.validate_json(TALKS.dump_json(first)) == first


def test_what_is_published_is_what_was_trained(words: Path, tmp_path: Path) -> None:
    from sottovoce.models import load

    run = tiny(Run, words, tmp_path / "run")
    publish(run, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.stop_ids == (run.encoder.end,)
    assert loaded.sampling.temperature == 0.7
    for left, right in zip(run.model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(left.bfloat16().float(), right)


@pytest.mark.slow
def test_a_run_goes_on_from_a_trained_model_and_tells_how_that_came_about(words: Path, tmp_path: Path) -> None:
    trained = tiny(Run, words, tmp_path / "trained")
    trained.progress.tokens = 123
    publish(trained, tmp_path / "model")
    again = tiny(Run, words, tmp_path / "again", tmp_path / "model")

    for left, right in zip(trained.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(left.bfloat16().float(), right)
    (tmp_path / "model" / "training.json").write_text("{}", encoding="utf-8")  # another model took its place
    before = record(tiny(Run, words, tmp_path / "again", tmp_path / "model"))["before"]
    assert isinstance(before, dict)
    assert before["tokens"] == 123


def test_a_new_token_begins_as_the_mean_of_those_that_its_text_was_written_in() -> None:
    before, after = (tokenizer.train(["the answer is 4", *more] * 9, 300) for more in ([], ["the answer is 4 or 5"]))
    rows = torch.randn(len(before), 8, generator=torch.manual_seed(0))
    new = dict(zip(after.convert_ids_to_tokens(list(range(len(after)))), carried(rows, before, after), strict=True))
    for token, i in before.get_vocab().items():
        if token in new:
            assert torch.equal(new[token], rows[i])
    made = set(new) - before.get_vocab().keys()
    assert made
    for token in made:
        ids = before(after.decode([after.get_vocab()[token]])).input_ids
        torch.testing.assert_close(new[token], rows[ids].mean(0))
