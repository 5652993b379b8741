"""Messages under information asymmetry as careful models write them: the answer in its form, questions, answers."""

from __future__ import annotations

import pytest

from sottovoce.nodes.ia import boxed, exchange

BOX = "\\boxed"
MESSAGES: list[tuple[str, str | None, int, int]] = [
    ("#A: My documents name the town, Aldmoor.\n#Q: On which river does Aldmoor lie?", None, 1, 1),
    (f"#A: Aldmoor lies on the Orla.\n{BOX}{{the Orla}}", "the Orla", 0, 1),
    (f"Your town and my river fit together, so the answer is {BOX}{{Orla}}.", "Orla", 0, 0),
    (f"**#A:** Bern Holt was born in Aldmoor.\n\n**Final answer:** {BOX}{{Aldmoor}}", "Aldmoor", 0, 1),
    ("- #A: He was a miller.\n- #Q: Who owned the mill?\n- #Q: When did it burn?", None, 2, 1),
    (f"I am fairly sure, though not certain, that it is {BOX}{{\\text{{Aldmoor}}}}", "Aldmoor", 0, 0),
    (f"${BOX}{{340}}$", "340", 0, 0),
    (f"$$\n{BOX}{{\\frac{{1}}{{2}}}}\n$$", "\\frac{1}{2}", 0, 0),
    (f"At first I had {BOX}{{Kell}}. With what you say it is {BOX}{{Aldmoor}}.", "Aldmoor", 0, 0),
    (f"Once I know the town I will write it as {BOX}{{...}}.\n#Q: Which town is it?", None, 1, 0),
    (f"I cannot box an answer yet; {BOX}{{answer}} has to wait.\n#Q: Which town is it?", None, 1, 0),
    (f"{BOX}{{}}\n#Q: Which town is it?", "", 1, 0),
    ("# Q: Which town?\n# A: His mother was called Ida.", None, 1, 1),
    ("#A: The first document says\nthat he moved twice.\n\n#Q: Where did he end up?", None, 1, 1),
    ("My documents say nothing of him. (They tell of the context{ual} history of Kell.)", None, 0, 0),
    (f"#A: It has 3 mills.\n#A: The newest is of 1903.\n{BOX}{{yes}}", "yes", 0, 2),
    (f"```\n{BOX}{{Aldmoor}}\n```", "Aldmoor", 0, 0),
    (f"{BOX} {{Aldmoor}}", "Aldmoor", 0, 0),
]
"""A message, what its box holds (None: no answer yet), and how many questions and answers it has."""


@pytest.mark.parametrize(("text", "answer", "questions", "answers"), MESSAGES)
def test_a_message_is_read_as_it_is_meant(text: str, answer: str | None, questions: int, answers: int) -> None:
    found = exchange(text)
    assert (boxed(text), len(found.questions), len(found.answers)) == (answer, questions, answers)
