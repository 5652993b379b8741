"""Tests of errors: one line, the right exit code, and no half-written file."""

# ruff: noqa: E501  # a table reads best with one case a line

from __future__ import annotations

import errno
import os
import shlex
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest

from sottovoce.cli.options import as_options
from sottovoce.runs.run_directory import saved_runs
from tests.cli.conftest import Call, Models
from tests.retrievers.support import written

USAGE, FAILED = 2, 1
FAST = ("--max-tokens", "4", "--rounds", "2")


def refused(call: Call, code: int, *arguments: object) -> str:
    """The one line of a refusal."""
    answer = call(*arguments)
    assert (answer.code, answer.out) == (code, "")
    (line,) = answer.err.splitlines()
    return line.removeprefix("sottovoce: ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("runs remove", "runs remove takes runs, or --keep N and --older-than DAYS; give runs or one of these"),
        ("data games whodunit --n 3", "Missing option '--to' (see `sottovoce data games whodunit --help`)"),
        ("debate --protocol cypher", "unknown protocol 'cypher'; did you mean 'cipher'? Choose from: cipher, graft, hidden, kv, nl, sde, thoughts"),
        ("debate --rounds 0", "rounds is '0': expected greater than or equal to 1"),
        ("debate '2 + 2?' --sample split/3", "a question and --sample were given; give one of them"),
        ("debate --target 5", "--target belongs to a question, but no question was given; give one, or drop it"),
        ("debate caf\udcff?", "the question has a character that is not text: '\\udcff'"),
        ("debate Which? --kind option " + " ".join(f"--choice=x{n}" for n in range(27)), "there are 27 choices; expected at most 26, one for each letter"),
        ("models doctor bundled --dtype int9", "unknown dtype 'int9'; choose from: auto, bfloat16, float16, float32"),
        ("debate '2 + 2?' --weights int4 --exact", "exact requires weights in float32, but they are in int4; give weights float32, or omit exact"),
        ("mad --model bundled --model bundled --model bundled", "model has 3 values for 2 agents and moderator, judge; give one for all, or one each"),
        ("debate '2 + 2?' --document 'agnet_1=x = 4.'", "unknown agent among the documents: 'agnet_1'; did you mean 'agent_1'? Choose from: agent_1, agent_2; if the text itself begins so, put a space before the ="),
        ("debate x --protocol cipher --bridge", "Option '--bridge' requires an argument"),
        ("debate --xyzzy", "unknown option '--xyzzy'; the nearest known one is '--exact' (see `sottovoce debate --help`)"),
        ("debate --chain-of-thought off", "--chain-of-thought is given by --option chain-of-thought=VALUE (see"),
        ("debate --rounds", "Option '--rounds' requires an argument"),
        ("graph draw", "Missing command (see `sottovoce graph draw --help`)"),
        ("debate --model nowhere", "unknown model 'nowhere'; choose from: bundled, smollm2; or give a folder with config.json and *.safetensors, a .gguf file, a hub id owner/name, or hosted:PROVIDER:MODEL"),
        ("debate --summarise each --shape fresh", "summaries replace the others' answers in a chat; use --summarise with --shape history, without --order"),
        ("cmd --representative first", "representative is 'first', but the secretary decides a tie; add --secretary off"),
        ("debate '2 + 2?' --rounds 1 --rounds 2", "--rounds was given 2 times; expected once"),
        ("debate '2 + 2?' --save ''", "--save is empty; expected a path"),
        ("debate --questions a.csv --model ./no", "question file 'a.csv' contains JSON, not CSV as its name says; rename it to .jsonl"),
        ("debate '2 + 2?' --intervention again", "--intervention needs a monitor, but no monitor is set; add --watch, or drop it"),
        ("runs export latest out --format md", "unknown format 'md'; choose from: card, csv, inspect, jsonl, markdown, qrels, trec"),
        ("runs compare a b --matched flops", "--matched compares one run with its baselines, and 2 were named; give one"),
        ("step debate --sample arithmetic --limit 2", "the stepper runs one discussion, but several were requested; give one question"),
        ("models doctor hosted:openai:mini", "models doctor examines local models only, and 'hosted:openai:mini' is a hosted one"),
        ("debate --prompts papr", "unknown prompt pack 'papr'; did you mean 'paper'?"),
        ("experiment run", "Missing argument 'FILE' (see `sottovoce experiment run --help`)"),
        ("experiment run .", "experiment file 'experiment.yaml' cannot be read: No such file or directory"),
        ("experiment layers --layers 2 --save x", "--layers was given, but this search chooses the layers; drop it"),
        ("experiment layers --protocol cipher --save x", "protocol is 'cipher', which reads no layers"),
        ("experiment layers --scheme debate --seeds 1 --save x", "--seeds were given; a search asks each question once"),
        ("data index", "an index needs a corpus and a new folder, e.g. data index passages.jsonl --to indexes/mine"),
        ("data index mill.jsonl --to ../{folder}", "'../{folder}' already exists: remove it, or choose another directory"),
        ("data index mill.jsonl --to x --encoder minilm", "--encoder is not an option of --retriever bm25"),
        ("debate '2 + 2?' --settings wrong.yaml", "unknown setting 'rouns'; did you mean 'rounds'? (settings file 'wrong.yaml')"),
        ("debate '2 + 2?' --settings twice.yaml", "settings file 'twice.yaml' is not YAML: the key 'rounds' occurs twice"),
        ("debate '2 + 2?' --settings none.yaml", "settings file 'none.yaml' cannot be read: No such file or directory"),
        ("debate --protocol 'a\nb\x1b[2J'", r"unknown protocol 'a\nb\x1b[2J'; choose from: cipher, "),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_with_what_was_expected_and_writes_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, line: str
) -> None:
    written(tmp_path)  # mill.jsonl
    (tmp_path / "a.csv").write_text('{"question": "1 + 1?"}\n')
    (tmp_path / "wrong.yaml").write_text("rouns: 2")
    (tmp_path / "twice.yaml").write_text("rounds: 2\nrounds: 3")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())

    words, line = (text.replace("{folder}", tmp_path.name) for text in (words, line))
    assert refused(call, USAGE, *shlex.split(words)).startswith(line)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("code", "words", "line"),
    [
        (USAGE, "single x --model {no_model}", "folder '{no_model}' is not a model: it has no config.json"),
        (USAGE, "debate x --model {pickled}", "has only pickled weights (pytorch_model.bin); expected *.safetensors"),
        (FAILED, "single x --model {tiny} --memory 1kB --max-tokens 4", "for keys and values, but the budget is 1 kB; "),
        (USAGE, "single x --model {tiny} --protocol sde --layers 7", "layer 7 is out of range; '{tiny}' has layers 0 to 1"),
        (USAGE, "debate x --protocol sde --model {tiny} --model {other_weights}", "sde needs one model on both sides"),
        (USAGE, "debate x --protocol cipher --model {tiny} --model {other_vocabulary}", "add --shared-vocabulary, or carry that edge in words with --fallback nl"),
    ],
)  # fmt: skip
def test_what_a_model_cannot_do_is_refused(call: Call, models: Models, code: int, words: str, line: str) -> None:
    folders = asdict(models)

    assert line.format(**folders) in refused(call, code, *words.format(**folders).split())
    assert not saved_runs() or code == FAILED


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("use `agents=3` or `exact=True`", "use --agents 3 or --exact"),
        ("add `secretary=False`, or drop `probe_from=`", "add --secretary off, or drop --probe-from"),
        ("give `redraw_temperature=` a value, or `merge='sum'`", "give --option redraw-temperature a value, or --option merge=sum"),
        ("with `on_missing='words'` only `columns=`", "with --lost words only --column"),
        ("`runs show x` and a=1", "`runs show x` and a=1"),
    ],
)  # fmt: skip
def test_settings_in_errors_are_shown_as_options(error: str, line: str) -> None:
    assert as_options(error) == line


def test_a_prompt_too_long_for_the_model_is_told_in_numbers(call: Call, models: Models) -> None:
    line = refused(call, FAILED, "debate", "one two three " * 400, "--model", models.tiny)

    assert "but the model reads 1024; shorten the prompt or lower max_tokens" in line


def test_a_folder_that_holds_a_run_is_not_written_over(call: Call, models: Models, tmp_path: Path) -> None:
    save = ("--model", models.tiny, "--save", tmp_path / "run", *FAST)
    assert call("debate", "2 + 2?", *save).code == 0
    before = (tmp_path / "run" / "log.jsonl").read_bytes()

    line = refused(call, USAGE, "debate", "2 + 2?", *save)

    assert (
        line == f"'{tmp_path / 'run'}' already contains a run; take another, or continue: "
        f"`sottovoce runs resume {tmp_path / 'run'}`"
    )
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)

    assert "no permission" in refused(call, USAGE, "debate", "2 + 2?", "--save", tmp_path / "shut" / "run")


class FullDisk(StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_in_one_line(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", FullDisk())

    answer = call("debate", "2 + 2?", "--model", models.tiny, "--json", *FAST)

    assert answer.code == FAILED
    assert answer.err == "sottovoce: the disk is full: [Errno 28] No space left on device\n"
