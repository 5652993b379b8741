"""The papers' set-ups as prompt packs: what agents read in them, and whether the replies they ask for are read."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.experiments.files import examples_of, shipped
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.prompts import NAMES, SHIPPED, kinds
from sottovoce.prompts.render import Prompts
from tests.graphs.support import built
from tests.tables import each_row

EXAMPLES = shipped()["cipher_table1"].parent / "examples"
NUMBER: Question = {"question": "What is 3 + 4 * 2?", "kind": "number"}
OPTION: Question = {"question": "With what does one eat soup?", "kind": "option", "choices": ["a fork", "a spoon"]}
LABEL: Question = {
    "question": "Premises:\n1. All cats purr.\n2. Tom is a cat.\nConclusion: Tom purrs.",
    "kind": "label",
    "choices": ["Correct", "Incorrect", "Unknown"],
}
CLAIM: Question = {"question": "Tom barks.", "kind": "label", "choices": ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]}
TEXT: Question = {"question": "Which band had more members?", "kind": "text"}
YES_NO: Question = {"question": "Do cats purr?", "kind": "yes_no"}
PASSAGES = ["Cleo had six members.", "The Trees had four.", "Both were bands.", "Both played."]
KNOWN: Any = {**TEXT, "documents": PASSAGES}
CODE: Any = {
    "question": 'def f(a, b):\n    """Add."""\n',
    "kind": "text",
    "game": {"test": ["assert f(1, 2) == 3"], "entry_point": "f"},
}
GAME: Any = {
    "suspect_count": 2,
    "suspects": [{"hat": "brown", "mood": "sad"}, {"hat": "black", "mood": "happy"}],
    "culprit": 1,
    "agents": {"Alex": [["hat", "black"]], "Beth": [["mood", "happy"]]},
}
BLOCK = "```python\ndef f(a, b):\n    return a + b\n```"
VERDICT = (
    '{"Whether there is a preference": "%s", "Supported Side": "Negative", "Reason": "It is.", "debate_answer": "%s"}'
)
SURE = '{"reasoning": "4 * 2 = 8, and 3 + 8 = 11.", "answer": "11", "confidence_level": "0.9"}'
TALKED = "Say: Ten tons each?\nDone: yes\nNext: Kate"

SETUPS: dict[str, tuple[str, dict[str, Any], Any, dict[str, list[str]]]] = {
    "debate of a number": ("debate", {"rounds": 2}, NUMBER, {"": ["It is \\boxed{11}."] * 4}),
    "debate of a choice": ("debate", {"rounds": 2}, OPTION, {"": ["It is (B)."] * 4}),
    "debate by SDE": ("debate", {"rounds": 2, "prompts": "paper/debate-sde"}, OPTION, {"": ["It is (B)."] * 4}),
    "debate by CIPHER": (
        "debate",
        {"rounds": 2, "prompts": "paper/debate-cipher", "shape": "fresh"},
        {**NUMBER, "demonstrations": examples_of(EXAMPLES, "cipher.yaml:arithmetic")[:1]},
        {"": ["8 + 3 = 11.\nAnswer: 11"] * 4},
    ),
    "debate by DAR": (
        "debate",
        {"rounds": 2, "agents": 3, "prompts": "paper/dar", "shape": "fresh", "retain": "diverse",
         "show_certainty": False},  # which a scripted model does not know
        NUMBER,
        {"": ["8 + 3 = 11.\nAnswer: 11"] * 6, "moderator": ["agent_2"]},
    ),
    "mad": ("mad", {}, NUMBER, {
        "affirmative": ["It is 14."] * 2, "negative": ["It is 11."] * 2,
        "moderator": [VERDICT % ("No", ""), VERDICT % ("Yes", "11")],
    }),
    "mad with a judge": ("mad", {"rounds": 1}, NUMBER, {
        "affirmative": ["It is 14."], "negative": ["It is 11."], "moderator": [VERDICT % ("No", "")],
        "judge": ["14, 11", '{"Reason": "It is.", "debate_answer": "11"}'],
    }),
    "reconcile": ("reconcile", {"agents": 2, "rounds": 1}, NUMBER, {
        "agent_1": [SURE] * 2, "agent_2": [SURE.replace('"11"', '"14"')] * 2,
    }),
    "cmd": ("cmd", {"agents": 4, "rounds": 2}, LABEL, {
        **dict.fromkeys(["agent_1", "agent_2"], ["So it is [Correct]."] * 2),
        **dict.fromkeys(["agent_3", "agent_4"], ["So it is [Unknown]."] * 2), "secretary": ["It is [Correct]."],
    }),
    "cmd of a choice": ("cmd", {"agents": 4, "rounds": 2}, OPTION, {
        "": ['{"reasons": "Soup is wet.", "answer": "option 2"}'] * 8,
    }),
    "madra": ("madra", {"source": "wiki", "wiki": "documents", "rounds": 2}, KNOWN, {
        "agent_1": ["[0] helps.\nEvidence: [0]", "So it is [Cleo]."] * 2,
        "agent_2": ["Evidence: [No Found]", "So it is [The Trees]."] * 2,
        "judge": ["[NO]"] * 2, "summarizer": ["It is [Cleo]."],
    }),
    "react": ("react", {"agents": 2, "steps": 2, "library": "documents"}, KNOWN, {
        "agent_1": [" I look.\nAction 1: Search[Cleo]"], "agent_2": [" It is so.\nAction 2: Finish[Cleo]"],
    }),
    "react of a claim": ("react", {"agents": 2, "steps": 2, "library": "documents"}, {**CLAIM, "documents": PASSAGES}, {
        "agent_1": [" I look.\nAction 1: Search[Tom]"], "agent_2": [" It is not so.\nAction 2: Finish[REFUTES]"],
    }),
    "ia": ("ia", {"rounds": 2}, KNOWN, {
        "agent_1": ["#Q: How many were the Trees?", "So: \\boxed{Cleo}"], "agent_2": ["#A: Four.", "\\boxed{Cleo}"],
    }),
    "one agent of ia": ("single", {"prompts": "paper/ia"}, KNOWN, {"": ["\\boxed{Cleo}"]}),
    "whodunit, asymmetric": ("whodunit", {"turns": 3}, {"question": "Who is it?", "game": GAME}, {
        "Beth": ['{"thoughts": "Hm.", "action": 1, "character": 1, "property": "hat", "value": "black"}',
                 '{"thoughts": "So.", "action": 3, "character": 2}'],
        "Alex": ['{"thoughts": "No.", "action": 1, "value": false}'],
    }),
    "whodunit, symmetric": (
        "whodunit", {"turns": 2, "variant": "sym", "agents": 2}, {"question": "Who is it?", "game": GAME}, {
            "Alex": ['{"thoughts": "Hm.", "action": 1, "fact": 1}'],
            "Beth": ['{"thoughts": "So.", "action": 2, "character": 2}'],
        },
    ),
    "codegen": ("codegen", {"agents": 2, "rounds": 2, "consensus": False}, CODE, {
        **{name: [BLOCK, f"{BLOCK}\n[[5, 4, 3]]"] for name in ("PythonAssistant", "AlgorithmDeveloper")},
        "Tester": ["assert f(1, 2) == 3"], "Reflector": ["[reflection 1]: Fine.\n[reflection 2]: Fine."],
        "Ranker": ["[2, 1]"],
    }),
    "govsim": ("govsim", {"agents": 2, "months": 2}, {"question": "How much?"}, {
        "John": ["Half.\nAnswer: 10 tons", TALKED, "Plan: Ten.\nRemember: Ten."] * 2,
        "Kate": ["Half.\nAnswer: 10 tons", "Plan: Ten.\nRemember: Ten."] * 2,
        "summarizer": ["All want ten.", "Answer: 10 tons"] * 2,
    }),
}  # fmt: skip
"""A short discussion by each set-up: scheme, settings, question, what agents say."""


@each_row("name", SETUPS)
def test_agents_discuss_by_the_set_up_of_the_paper_to_a_decision(name: str) -> None:
    scheme, settings, question, replies = SETUPS[name]
    model = ScriptedChatModel(replies)

    decided = built(scheme, model, **{"prompts": "paper", "answer_turn": "off", **settings}).invoke(question)

    assert decided["decision"] and model.calls


def test_every_set_up_that_ships_is_tried() -> None:
    chosen = {settings.get("prompts", f"paper/{scheme}") for scheme, settings, _, _ in SETUPS.values()}

    assert chosen == {name for name in NAMES if name.startswith("paper/")}


REPLIES: list[tuple[str, Question, str, str, str]] = [
    ("debate", NUMBER, r"\boxed{...}", "4 * 2 = 8.\n3 + 8 = \\boxed{11}", "11"),
    ("debate", OPTION, "(X)", "Soup is wet, so one takes a spoon. (B)", "B"),
    ("debate", TEXT, r"\boxed{...}", "Six is more than four: \\boxed{Cleo}", "Cleo"),
    ("debate", CLAIM, "SUPPORTS, REFUTES, NOT ENOUGH INFO", "It purrs. \\boxed{REFUTES}", "REFUTES"),
    ("debate-sde", NUMBER, r"\boxed{...}", "That makes \\boxed{11}.", "11"),
    ("debate-sde", OPTION, "(X)", "One takes a spoon, which is (B).", "B"),
    ("debate-cipher", NUMBER, '"Answer:"', "4 * 2 = 8, and 3 + 8 = 11.\nAnswer: 11", "11"),
    ("debate-cipher", OPTION, '"Answer:"', "Soup is wet.\nAnswer: B", "B"),
    ("cmd", LABEL, "[Correct], [Incorrect], [Unknown]", "Final Step (by #1): Tom purrs: [Correct].", "Correct"),
    ("cmd", NUMBER, '"answer" (the number', '{"reasons": "4 * 2 = 8, and 3 + 8 = 11.", "answer": 11}', "11"),
    ("cmd", OPTION, '"answer" (the word option', '{"reasons": "Soup is wet.", "answer": "option 2"}', "B"),
    ("ia", TEXT, r"\boxed{...}", "Six is more than four. \\boxed{Cleo}", "Cleo"),
    ("ia", YES_NO, "yes or no", "They do. \\boxed{yes}", "yes"),
    ("ia", CLAIM, "SUPPORTS, REFUTES, NOT ENOUGH INFO", "It purrs. \\boxed{REFUTES}", "REFUTES"),
    ("madra", TEXT, "square brackets", "From [0] and [1], six against four. The answer is [Cleo].", "Cleo"),
    ("madra", CLAIM, "[SUPPORTS], [REFUTES], [NOT ENOUGH INFO]", "It purrs [0]. [REFUTES]", "REFUTES"),
    ("mad", NUMBER, "with your reasons", "Times goes before plus. The answer is 11.", "11"),
]  # fmt: skip


@each_row("pack, question, asks, reply, answer", REPLIES)
def test_an_answer_in_the_format_that_a_set_up_asks_for_is_read(
    pack: str, question: Question, asks: str, reply: str, answer: str
) -> None:
    assert asks in PromptBuilder(Prompts(SHIPPED / "paper" / pack), question, None).form()

    assert kinds.read_reply(reply, question) == answer


@pytest.mark.parametrize(
    ("name", "kind", "answers"),
    [
        ("cipher/gsm8k", "number", ["12", "29", "3"]),
        ("cipher/arithmetic", "number", ["27", "1", "-20", "10"]),
        ("cipher/mmlu", "option", ["D", "A", "B", "C"]),
        ("cmd/folio", "label", ["Correct"]),
        ("cmd/gsm8k", "number", ["29"]),
        ("cmd/ecqa", "option", ["B"]),
    ],
)
def test_worked_examples_are_in_a_format_that_is_read(name: str, kind: str, answers: list[str]) -> None:
    choices = {"option": ["drawer", "mailbox", "album", "fireplace"], "label": LABEL["choices"]}.get(kind, [])
    question: Question = {"question": "?", "kind": kind, "choices": choices}

    assert [
        kinds.read_reply(example, question) for example in examples_of(EXAMPLES, name.replace("/", ".yaml:"))
    ] == answers
