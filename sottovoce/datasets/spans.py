"""Data sets with short text answers, scored by exact match and F1, and translations, which are not scored here.

Translations need COMET or BLEURT, whose weights are not part of this program.
"""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.datasets.data_set import DataSet, Fields, Hub, Row

METRIC = "EM, F1"
IDS = "id_aliases.json"


def span(question: str, forms: Iterable[JSONValue]) -> Fields:
    """Return a question: the first non-empty form is the target, others are aliases; a UsageError if all are empty."""
    texts = list(dict.fromkeys(form.strip() for form in forms if isinstance(form, str) and form.strip()))
    if not texts:
        raise UsageError("it has no answer; expected a text that is not empty, or a list of texts")
    fields: Fields = {"question": question, "target": texts[0]}
    return {**fields, "aliases": texts[1:]} if texts[1:] else fields


def paragraphs(context: JSONValue) -> list[dict[str, str]]:
    """Return passages from [[title, [sentence, ...]], ...], or from the hub's lists of titles and sentences.

    Raises:
        UsageError: the value has neither format.
    """
    if isinstance(context, dict) and isinstance(context.get("title"), list):
        context = [*zip(context["title"], context.get("sentences") or [], strict=False)]
    try:
        return [{"title": title, "text": " ".join(map(str.strip, sentences))} for title, sentences in context]
    except (TypeError, ValueError, AttributeError):
        raise UsageError("context contains no [title, sentences] pairs; expected the paragraphs as published") from None


def _multihop(row: Row) -> Fields:
    """Read a row of HotpotQA or 2WikiMultihopQA; `answer_aliases` comes from the file of ids."""
    fields = span(row.text("question"), [row.text("answer"), *row.values.get("answer_aliases", [])])
    facts = row.values.get("supporting_facts")  # [[title, sentence], ...], or the hub's lists of both
    titles = facts.get("title") if isinstance(facts, dict) else [fact[0] for fact in facts or [] if fact]
    if gold := list(dict.fromkeys(title for title in titles or [] if isinstance(title, str))):
        fields["gold_passages"] = gold
    if row.part == "support":
        return {**fields, "documents": _supporting(row)}
    return {**fields, "documents": paragraphs(row.get("context"))} if row.part == "context" else fields


def _supporting(row: Row) -> list[str]:
    """Return the supporting sentences in their published order; a fact without its sentence is left out."""
    context, facts = row.get("context"), row.get("supporting_facts")
    try:
        if isinstance(context, dict):  # of the hub
            context = zip(context["title"], context["sentences"], strict=True)
            facts = zip(facts["title"], facts["sent_id"], strict=True)
        sentences = dict(context)
        found = [sentences[title][at].strip() for title, at in facts if at < len(sentences.get(title, []))]
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UsageError("supporting_facts are not [title, number] pairs of the context, as published") from None
    if not found:
        raise UsageError("no supporting fact is in the context; expected at least one")
    return found


def _cwq(row: Row) -> Fields:
    answers = row.get("answers")
    if not isinstance(answers, list) or not all(isinstance(each, dict) for each in answers):
        raise UsageError(f"answers are {answers!r}; expected a list of {{answer, aliases}}")
    forms = [form for each in answers for form in (each.get("answer"), *(each.get("aliases") or []))]
    return span(row.text("question"), forms)


def _triviaqa(row: Row) -> Fields:
    answer = row.get("Answer", "answer")
    if not isinstance(answer, dict):
        raise UsageError(f"Answer is {answer!r}; expected {{Value, Aliases}}")
    forms = [answer.get("Value", answer.get("value")), *(answer.get("Aliases") or answer.get("aliases") or [])]
    return span(row.text("Question", "question"), forms)


def _open(row: Row) -> Fields:
    """Read a row with one right answer, or a list of them."""
    answer = row.get("answer")
    return span(row.text("question"), answer if isinstance(answer, list) else [answer])


HOTPOTQA = DataSet(
    "hotpotqa",
    "questions that need two articles, some with the answer yes or no",
    "text",
    {"_id": "...", "question": "...", "answer": "...", "type": "bridge", "context": [["Title", ["A sentence."]]]},
    _multihop,
    {"dev": 7_405, "train": 90_447},
    METRIC,
    parts={
        "context": "with the ten paragraphs of the distractor setting as documents",
        "support": "with the supporting sentences alone as documents, as in KVComm",
    },
    own_id=("_id", "id"),
    metadata=("type", "level"),
    hub=Hub("distractor", "validation"),
)
TWO_WIKI = DataSet(
    "2wiki",
    "questions of two to four hops; a folder with dev.json and id_aliases.json",
    "text",
    {"_id": "...", "question": "...", "answer": "...", "answer_id": "Q1", "type": "comparison"},
    _multihop,
    {"dev": 12_576, "train": 167_454},
    METRIC,
    parts={"context": "with the paragraphs as documents"},
    own_id=("_id", "id"),
    metadata=("type",),
    aliases_in=IDS,
    hub=Hub(split="validation"),
)
CWQ = DataSet(
    "cwq",
    "complex questions over Freebase (ComplexWebQuestions)",
    "text",
    {"ID": "...", "question": "...", "answers": [{"answer": "...", "aliases": ["..."]}]},
    _cwq,
    {"dev": 3_519, "train": 27_639},
    METRIC,
    own_id=("ID",),
    hub=Hub(split="validation"),
)
QUASAR_T = DataSet(
    "quasar_t",
    "trivia whose answers are found in web pages (Quasar-T)",
    "text",
    {"uid": "...", "question": "...", "answer": "..."},
    _open,
    {"dev": 3_000, "train": 37_012, "test": 3_000},
    METRIC,
    own_id=("uid",),
)
TRIVIAQA = DataSet(
    "triviaqa",
    "trivia with many forms of each answer",
    "text",
    {"Data": [{"QuestionId": "...", "Question": "...", "Answer": {"Value": "...", "Aliases": ["..."]}}]},
    _triviaqa,
    {"unfiltered-dev": 11_313, "wikipedia-dev": 7_993, "web-dev": 9_951},
    METRIC,
    within="Data",
    own_id=("QuestionId", "question_id"),
    hub=Hub("unfiltered.nocontext", "validation"),
)
NQ = DataSet(
    "nq",
    "questions that people asked a search engine (Natural Questions, open)",
    "text",
    {"question": "...", "answer": ["...", "..."]},
    _open,
    {"dev": 3_610, "train": 87_925},
    METRIC,
    hub=Hub(split="validation"),
)


def _commonmt(row: Row) -> Fields:
    """Read a row; the reference is saved with the question but is not its target: a match is not a useful score."""
    row.text("reference")
    return {"question": f"Translate into English: {row.text('source')}"}


COMMONMT = DataSet(
    "commonmt",
    "Chinese sentences whose translation needs common sense (lexical ambiguity); a .tsv file of both texts",
    "text",
    {"source": "...", "reference": "..."},
    _commonmt,
    {"lexical": 200},
    "none here (COMET, BLEURT)",
    columns=("source", "reference"),
    is_csv=True,
    tabs=True,
    metadata=("reference",),
    needs="COMET or BLEURT weights, which are not part of this program: answers are saved but not scored",
)
