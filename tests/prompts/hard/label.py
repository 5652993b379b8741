"""Hard strings for labels: what was written, what was meant, and why it is hard."""

VERDICTS = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
CHECKED = ["Correct", "Incorrect", "Unknown"]
MOODS = ["positive", "negative", "very negative"]

OF_VERDICTS: list[tuple[str, str | None, str]] = [
    ("The passage says so.\nAnswer: SUPPORTS", "SUPPORTS", "the form that is asked for"),
    ("**Answer:** REFUTES", "REFUTES", "Markdown around the mark"),
    ("**Answer: NOT ENOUGH INFO**", "NOT ENOUGH INFO", "Markdown around both"),
    ("SUPPORTS", "SUPPORTS", "nothing else"),
    ("NOT ENOUGH INFO", "NOT ENOUGH INFO", "nothing else, and it sounds like an abstention"),
    ("Not enough info.", "NOT ENOUGH INFO", "in small letters"),
    ("NOT_ENOUGH_INFO", "NOT ENOUGH INFO", "with underscores"),
    ("not-enough-info", "NOT ENOUGH INFO", "with hyphens"),
    ("[REFUTES]", "REFUTES", "in brackets"),
    ("[ refutes ]", "REFUTES", "in brackets with spaces"),
    ("The answer is [SUPPORTS].", "SUPPORTS", "brackets within a statement"),
    (r"\boxed{\text{REFUTES}}", "REFUTES", "in a box"),
    ("The label is REFUTES.", "REFUTES", "the label is"),
    ("Label: SUPPORTS", "SUPPORTS", "a mark of its own"),
    ("Verdict: **Refutes**", "REFUTES", "another mark"),
    ("The evidence refutes the claim.", "REFUTES", "a verb in a sentence"),
    ("The evidence SUPPORTS the claim. Mira was born there.", "SUPPORTS", "a verb, and more after it"),
    ("SUPPORTS because nothing REFUTES it", "SUPPORTS", "a reason with another label"),
    ("SUPPORTS, not REFUTES.", "SUPPORTS", "a denial behind"),
    ("The answer is not SUPPORTS but REFUTES.", "REFUTES", "a denial before"),
    ("It is not REFUTES. It is SUPPORTS.", "SUPPORTS", "a denial in a sentence of its own"),
    ("The answer is SUPPORTS or REFUTES.", None, "two"),
    ("SUPPORTS, REFUTES or NOT ENOUGH INFO?", None, "the labels again"),
    ("SUPPORTS\nREFUTES\nNOT ENOUGH INFO", None, "the labels again, one a line"),
    ("[Unknown]", None, "a label that is not on the list"),
    ("Answer: MAYBE", None, "a label that is not on the list"),
    ("Passage [1] is about Mira [2]. Answer: REFUTES", "REFUTES", "numbers of passages in brackets"),
    ("Passage [1] is about Mira.", None, "a number of a passage and no label"),
    ("[]", None, "nothing in brackets"),
    ("[ ]", None, "a space in brackets"),
    ('{"answer": "not enough info"}\nI looked at [2].', "NOT ENOUGH INFO", "prose after an object"),
    ('```json\n{"reasons": "[1]", "answer": "REFUTES"}\n```\nDone.', "REFUTES", "prose after a fence"),
    ("I don't know.", None, "it does not know"),
    ("I'm sorry, but I cannot label this.", None, "a refusal"),
    ("There is not enough info in the passages.", "NOT ENOUGH INFO", "within a sentence"),
    ("The claim seems", None, "cut"),
    ("Answer: (B)", "REFUTES", "by its letter, as choices are shown"),
    ("Answer: SUPPORTS\n\nClaim: The sky is green.\nAnswer: REFUTES", "SUPPORTS", "goes on with its own claim"),
    ("Some would say SUPPORTS. I disagree.\n\nAnswer: REFUTES", "REFUTES", "another's answer first"),
    ("`REFUTES`", "REFUTES", "as code"),
    ('"SUPPORTS"', "SUPPORTS", "in quotes"),
]
OF_CHECKED: list[tuple[str, str | None, str]] = [
    ("Answer: Incorrect", "Incorrect", "one label within another"),
    ("This is incorrect.", "Incorrect", "one label within another, in a sentence"),
    ("This is correct.", "Correct", "a sentence"),
    ("It is not correct.", None, "a denial; the list has a word for it, and it was not said"),
    ("[Unknown]", "Unknown", "a label of the list, no abstention"),
    ("Answer: unknown", "Unknown", "the same by the mark"),
]
OF_MOODS: list[tuple[str, str | None, str]] = [
    ("The review is very negative.", "very negative", "the longer of two"),
    ("Answer: Negative", "negative", "the shorter of two"),
    ("The mood: positive!", "positive", "an end with a sign"),
]
OF_ANY: list[tuple[str, str | None, str]] = [
    ("[Correct]", "correct", "brackets, and no list"),
    ("[Bob] lied, so [ Eve ].", "eve", "the last one"),
    ("Answer: Correct", "correct", "the form that is asked for"),
    ("**Answer:** Not enough info.", "not enough info", "Markdown and a dot"),
    ("The answer is [Unknown].", "unknown", "a label as good as any"),
    ("It was Bob", None, "nothing marks it"),
    ("[ ]", None, "a space in brackets"),
    ("[two\nlines]", None, "brackets over two lines"),
    ("See [1].\n[Eve]", "eve", "a number of a passage before"),
    ("Answer: Eve because [Bob] was away", "eve", "a reason with another in brackets"),
]
