"""Hard strings for free text: what was written, what was meant, and why it is hard.

What is read may keep its own sentence: a case says the answer as it stands after the question's own words are
taken off.
"""

RIVER = "On which river does the town where Mira Dolan was born lie?"
CAPITAL = "What is the capital of France?"
PAINTER = "Who painted the Water Lilies?"
JOB = "What is the job of the sister of Mira Dolan?"
FIRST = "Which band was formed first, The Beatles or The Rolling Stones?"

OF_CAPITAL: list[tuple[str, str | None, str]] = [
    ("France's capital is well known.\nAnswer: Paris", "Paris", "the form that is asked for"),
    ("**Answer:** Paris", "Paris", "Markdown around the mark"),
    ("**Answer: Paris**", "Paris", "Markdown around both"),
    ("Final answer: **Paris**.", "Paris", "bold and a dot"),
    ("**Paris**", "Paris", "bold alone"),
    ("*Paris*", "Paris", "slanted alone"),
    ("`Paris`", "Paris", "as code"),
    ('"Paris"', "Paris", "in quotes"),
    ("\u201cParis.\u201d", "Paris", "a dot within quotes"),
    ("Paris", "Paris", "nothing else"),
    ("Paris.", "Paris", "a dot"),
    ("[Paris]", "Paris", "brackets"),
    ("The answer is [Paris].", "Paris", "brackets within a statement"),
    (r"\boxed{\text{Paris}}", "Paris", "text in a box"),
    (r"$\boxed{\mathrm{Paris}}$", "Paris", "roman letters in a box"),
    ("Answer: Paris because it is the seat of the government.", "Paris", "a reason with because"),
    ("Answer: Paris since it is the largest city.", "Paris", "a reason with since"),
    ("Answer: Paris, as it is the seat of the government.", "Paris", "a reason with as"),
    ("Answer: Paris (the largest city)", "Paris", "a remark in brackets"),
    ("The answer is Paris. It lies on the Seine.", "Paris", "a sentence behind, on the same line"),
    ("The answer is unknown.", None, "an abstention"),
    ("Answer: Unknown", None, "an abstention by the mark"),
    ("The answer is not known to me.", None, "an abstention in other words"),
    ("Answer: I don't know", None, "it does not know"),
    ("I don't know.", None, "it does not know, alone"),
    ("I'm sorry, but I can't help with that.", None, "a refusal"),
    ("The answer is not Lyon but Paris.", "Paris", "a denial before"),
    ("The answer is Paris, not Lyon.", "Paris", "a denial behind"),
    ("The answer is not Lyon.", None, "a denial and nothing else"),
    ("The capital of France is Paris.", "Paris", "the question's own words before"),
    ("Paris is the capital of France.", "Paris", "the question's own words behind"),
    ("It is Paris.", "Paris", "a short sentence"),
    ("I think it's Paris.", "Paris", "an opinion"),
    ("The capital of France is Paris. It is the largest city of the country.", "Paris", "a remark behind"),
    ("Sure! The capital of France is Paris.", "Paris", "a courtesy before"),
    ("Paris is the correct answer.", "Paris", "the mark stands behind"),
    ("The answer is Paris [see document 2].", "Paris", "a source in brackets"),
    ("Paris [1]", "Paris", "the number of a source"),
    ("What is the capital of France?", None, "the question again"),
    ("Answer: [your answer]", None, "an echo of a request"),
    ('End with your answer in square brackets, as in "[Paris]".', None, "an echo of a request with an example"),
    ("Let me think about this step by step.", None, "it begins to think"),
    ("The capital of France is", None, "cut before the answer"),
    ('{"answer": "Paris"}\nParis is lovely.', "Paris", "prose after an object"),
    ('```json\n{"reasons": "known", "answer": "Paris"}\n```\nI hope this helps.', "Paris", "prose after a fence"),
    ("Answer: Paris\n\nQuestion: What is the capital of Spain?\nAnswer: Madrid", "Paris", "goes on by itself"),
    ("The answer is clear. Answer: Paris", "Paris", "a statement that says nothing"),
]
OF_RIVER: list[tuple[str, str | None, str]] = [
    ("The town where Mira Dolan was born lies on the river Orn.", "Orn", "a plain sentence"),
    ("The river Orn", "Orn", "the question's noun before the name"),
    ("Orn", "Orn", "the name"),
    ("Kestrel Bay lies on the river Orn.", "Orn", "another name in the sentence"),
    ("Mira Dolan was born in Kestrel Bay, which lies on the river Orn, so the answer is Orn.", "Orn", "a chain"),
    ("The town where Mira Dolan was born lies on the river Orn because Kestrel Bay does.", "Orn", "a reason"),
    ("I don't know on which river it lies.", None, "it does not know, in the question's words"),
    ("It lies on the Orn or the Tamar.", None, "two, and none chosen"),
    (
        "There are many rivers in this country. Some of them are long. Others are short. The towns on them are old "
        "and have many people who were born there, and Mira Dolan knows them all. Kestrel Bay is one of these towns. "
        "It has a market and a mill.",
        None,
        "it rambles",
    ),
]
OF_OTHERS: list[tuple[str, str, str | None, str]] = [
    (PAINTER, "Claude Monet painted the Water Lilies.", "Claude Monet", "the subject of a sentence"),
    (PAINTER, "The Water Lilies were painted by Claude Monet.", "Claude Monet", "the end of a passive sentence"),
    (JOB, "The job of the sister of Mira Dolan is a baker.", "a baker", "an article"),
    (JOB, "Mira Dolan's sister is a baker.", "a baker", "a possessive of the question's name"),
    (FIRST, "The Beatles were formed first.", "The Beatles", "one of two that the question names"),
    (FIRST, "Answer: The Rolling Stones", "The Rolling Stones", "all its words are the question's"),
    ("Who wrote it?", "Answer: J. R. R. Tolkien", "J. R. R. Tolkien", "dots of initials"),
    ("Where is it?", "The answer is St. Louis, Missouri.", "St. Louis, Missouri", "a dot of an abbreviation"),
    ("Which language?", "Answer: C++", "C++", "signs that belong to it"),
    ("Which album?", "Answer: Unknown Pleasures", "Unknown Pleasures", "a title that begins like an abstention"),
    ("Is it old?", "Yes, it is.", "Yes", "a yes to a free question"),
]
