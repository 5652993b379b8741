"""What a real language model shows: it computes as we rely on, and it answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from langchain_core.messages import HumanMessage

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.cli.main import main
from sottovoce.models import Feed, Ids, LoadedModel, Record, Request, Stop, load
from sottovoce.models.doctor import diagnose
from tests.support import FLOAT32, same_reply

pytestmark = pytest.mark.real
ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUESTION = "What is the capital of France?"
PROMPTS = (QUESTION, "Name three colours.", "Mia has 14 apples and eats 3. How many are left?\n\n1. Think.")


def asked(loaded: LoadedModel, text: str, feed: Feed | None = None) -> Request:
    """A greedy request for a chat of one question."""
    chat = [{"role": "user", "content": text}]
    prompt = str(loaded.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))
    return Request(
        (Ids(loaded.chat.ids(prompt)),), Stop(12, ids=loaded.stop_ids), feed=feed or Feed(), record=Record(stats=True)
    )


def test_every_line_of_the_doctor_is_well(smollm2: LoadedModel) -> None:
    found = {finding.check: finding for finding in diagnose("smollm2", device="cpu")}

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert found["batch = single"].ok
    assert found["protocols"].detail.startswith("nl, cipher, sde, hidden, kv, thoughts, graft; sde scores lower")


def test_in_int4_it_computes_as_its_file(smollm2: LoadedModel) -> None:
    prompt = torch.tensor([smollm2.chat.ids(QUESTION)])
    with torch.no_grad():
        found = load("smollm2", device="cpu", weights="int4").model(prompt).logits
        expected = smollm2.model(prompt).logits
    assert (found - expected).abs().max() <= 3e-2 * expected.abs().max()  # bfloat16's, of inputs, scales and outputs


def test_it_knows_the_capital_of_france(smollm2: LoadedModel) -> None:
    model = HookedChatModel(model="smollm2", device="cpu", temperature=0)

    reply = model.invoke([HumanMessage(QUESTION)])

    assert reply.content == "The capital of France is Paris."


def test_cold_cipher_says_what_a_greedy_reply_says(smollm2: LoadedModel) -> None:
    for text in PROMPTS:
        words = smollm2.engine.run(asked(smollm2, text))
        means = smollm2.engine.run(asked(smollm2, text, Feed("mean")))
        assert means.ids == words.ids


def test_a_reply_does_not_depend_on_its_company(smollm2: LoadedModel) -> None:
    fresh = smollm2.engine.twin(reuse=False)
    together = fresh.run_all([asked(smollm2, text) for text in PROMPTS])

    for text, reply in zip(PROMPTS, together, strict=True):
        assert same_reply(reply, fresh.run(asked(smollm2, text)), FLOAT32)


def test_text_is_split_as_in_training(smollm2: LoadedModel) -> None:
    # SmolLM2's own tokenizer.json splits digits first, so that two line breaks before a number are one token.
    assert smollm2.tokenizer.tokenize("Steps:\n\n12 apples") == ["Steps", ":", "ĊĊ", "1", "2", "Ġapples"]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["nl", "cipher", "sde", "hidden"])
def test_two_agents_debate_on_it(smollm2: LoadedModel, capsys: pytest.CaptureFixture[str], protocol: str) -> None:
    """Each knows one of two facts, and each is asked for the answer after its last sentence."""
    asked = ["debate", "--sample", "facts/10", "--model", "smollm2", "--protocol", protocol]

    code = main([*asked, "--rounds", "2", "--max-tokens", "40", "--temperature", "0", "--device", "cpu"])

    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert "\n4 calls" in out and "right: the answer is Tuesday" in out


def test_keys_and_values_tell_what_a_summary_loses(smollm2: LoadedModel, tmp_path: Path) -> None:
    """The first Python example of README, with the answers that it names."""
    done = subprocess.run(
        [sys.executable, "-c", FENCED.search(README.read_text(encoding="utf-8"))[1]],  # type: ignore[index]
        cwd=ROOT,
        env={**os.environ, "SOTTOVOCE_STORE": str(tmp_path), "SOTTOVOCE_RUNS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    named = re.findall(r"`(?:nl|kv)` (?:answers )?\"(.*?)\" after (\d+)", README.read_text(encoding="utf-8"))
    assert len(named) == 2
    for answer, tokens in named:
        assert re.search(rf"{answer} +[\d.]+ +{tokens}\n", done.stdout), done.stdout
