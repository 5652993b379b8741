"""Data sets with the answers yes and no, or with one of three labels."""

from __future__ import annotations

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.datasets.schema import DataSet, Fields, Hub, Row

FOLIO_LABELS = {"true": "Correct", "false": "Incorrect", "unknown": "Unknown", "uncertain": "Unknown"}
"""The published labels, and those that CMD uses for them."""
FEVER_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
CLAIM = (
    "Tell whether what is known about the world supports a claim (SUPPORTS), speaks against it (REFUTES), "
    "or is not enough to tell (NOT ENOUGH INFO)."
)
CONCLUSION = (
    "Tell whether a conclusion follows from premises (Correct), is contradicted by them (Incorrect), "
    "or neither (Unknown)."
)
YES = {True: "yes", False: "no", "yes": "yes", "no": "no", "true": "yes", "false": "no"}


def _one_of(label: JSONValue, known: dict[str, str], column: str) -> str:
    """Return the label for its name in lower case."""
    name = str(label).strip().replace("_", " ").lower()
    if name not in known:
        raise UsageError(f"{column} is {label!r}; expected one of {', '.join(known)}")
    return known[name]


def _folio(row: Row) -> Fields:
    """Read a row; premises are part of the question, or documents (part "documents"). On the hub they are one text."""
    given = row.get("premises")
    premises = [each.strip() for each in given.split("\n")] if isinstance(given, str) else row.texts("premises")
    conclusion = f"Conclusion: {row.text('conclusion')}"
    fields: Fields = {"choices": list(dict.fromkeys(FOLIO_LABELS.values())), "description": CONCLUSION}
    fields["target"] = _one_of(row.get("label"), FOLIO_LABELS, "label")
    if row.part == "documents":
        return {**fields, "question": conclusion, "documents": premises}
    listed = "\n".join(f"{number}. {each}" for number, each in enumerate(premises, start=1))
    return {**fields, "question": f"Premises:\n{listed}\n{conclusion}"}


def _strategyqa(row: Row) -> Fields:
    """Read a row; facts are gold evidence, which agents get only if the part is "facts"."""
    answer = row.get("answer")
    known = answer if isinstance(answer, bool) else str(answer).strip().lower()
    if known not in YES:
        raise UsageError(f"answer is {answer!r}; expected true or false")
    fields: Fields = {"question": row.text("question"), "target": YES[known]}
    facts = row.values.get("facts") or []
    facts = [facts] if isinstance(facts, str) else facts
    if facts:
        fields["solution"] = f"{' '.join(map(str, facts))} The answer is {fields['target']}."
    if row.part == "facts":
        fields["documents"] = row.texts("facts") if isinstance(row.values.get("facts"), list) else facts
    return fields


def _fever(row: Row) -> Fields:
    target = _one_of(row.get("label"), {each.lower(): each for each in FEVER_LABELS}, "label")
    fields: Fields = {"question": row.text("claim"), "choices": [*FEVER_LABELS], "target": target}
    gold = {"gold_passages": found} if (found := _pages(row)) else {}
    return {**fields, **gold, "description": CLAIM}


def _pages(row: Row) -> list[str]:
    """Return the titles of the pages that FEVER's evidence names: [[[annotation, evidence, page, sentence]]]."""
    evidence = row.values.get("evidence")
    lists = [one for one in evidence if isinstance(one, list)] if isinstance(evidence, list) else []
    named = [each[2] for one in lists for each in one if isinstance(each, list) and len(each) > 2]
    pages = [*named, row.values.get("evidence_wiki_url")]
    titles = (str(page).replace("-LRB-", "(").replace("-RRB-", ")").replace("-COLON-", ":") for page in pages if page)
    return list(dict.fromkeys(title.replace("_", " ") for title in titles))


FEVER_ROW = {"id": 1, "claim": "A river flows uphill.", "label": "REFUTES"}
FOLIO = DataSet(
    "folio",
    "conclusions from premises in everyday words: Correct, Incorrect or Unknown (FOLIO-wiki, curated)",
    "label",
    {"premises": ["All cats purr.", "..."], "conclusion": "...", "label": "true"},
    _folio,
    {"curated": 460},
    parts={"documents": "premises as documents, not in the question"},
    hub=Hub(split="validation"),
)
STRATEGYQA = DataSet(
    "strategyqa",
    "yes-or-no questions that leave the reasoning steps implicit",
    "yes_no",
    {"qid": "...", "question": "...", "answer": True, "facts": ["..."]},
    _strategyqa,
    {"dev": 229, "train": 2_290},
    parts={"facts": "with the gold facts as documents"},
    own_id=("qid",),
    metadata=("term",),
    hub=Hub(split="train"),
)
FEVER = DataSet(
    "fever",
    "claims checked against Wikipedia: SUPPORTS, REFUTES or NOT ENOUGH INFO",
    "label",
    FEVER_ROW,
    _fever,
    {"paper_dev": 9_999, "paper_test": 9_999, "train": 145_449},
    own_id=("id",),
    metadata=("verifiable",),
    hub=Hub("v1.0", "paper_dev"),
)
FEVER2 = DataSet(
    "fever2",
    "the same, with claims written to mislead (FEVER 2.0, fixers)",
    "label",
    FEVER_ROW,
    _fever,
    {"dev": 1_174},
    own_id=("id",),
    hub=Hub("v2.0", "validation"),
)
FEVEROUS = DataSet(
    "feverous",
    "the same, over texts and tables",
    "label",
    FEVER_ROW,
    _fever,
    {"dev": 7_890, "train": 71_291},
    own_id=("id",),
    metadata=("challenge",),
    # the first row, which only lists the fields
    passes_over=lambda row: not row.values.get("claim") and not row.values.get("label"),
)
