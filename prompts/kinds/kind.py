"""The record of a kind of answer: how it is requested, read, compared, and constrained while decoding.

Readers of all kinds share the sentences of a reply: where they end, their reasons and denials, and words that say that
nothing is known.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.core.any_types import Unimported
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.marks import normalise

Choices = Sequence[str]
FEW = 6  # words of a reply that is nothing but the answer


def is_bare(line: str, choices: Choices) -> bool:
    """Return whether a line is only an answer: at most six words without a verb or a colon, and not a sentence.

    Four or more words with a full stop count as a sentence, with any verb.
    """
    is_short = len(line.split()) <= (FEW if line[-1] not in ".!" else FEW // 2)
    return is_short and not VERB.search(line) and not re.search(r":|\?\Z", line)


@dataclass(frozen=True)
class Kind:
    """One kind of answer; a new kind is one file with one object of this class."""

    words: str
    """The kind's name in a sentence: "yes or no"."""
    form: str
    """The request for it: the name of a prompt file ("answers/number"), or the words themselves."""
    placeholder: str
    """The answer's placeholder in a JSON form: "a number"."""
    read: Callable[[str, Choices], str | None]
    """Returns the answer, in canonical form, of a statement (the words after "Answer:" or in a box) or a field.

    It returns an empty text for a statement that there is none, or several, and None for one about something else.
    """
    bare: Callable[[str, Choices], bool] = is_bare
    """Returns whether a reply of one line is nothing but an answer, so that it is read without a statement."""
    same: Callable[[str, str], bool] = lambda left, right: left.casefold().split() == right.casefold().split()
    """Returns whether two canonical answers agree."""
    right: Callable[[str, str], bool] | None = None
    """Returns whether an answer is right given the target, if that is more than `same`."""
    grammar: Callable[[Choices], Form | None] = lambda choices: None
    """Returns the format of a reply that is only an answer; None if it may be any text."""
    check: Callable[[Mapping[str, Unimported]], None] = lambda question: None
    """Raises a UsageError if a question's target or choices do not fit this kind."""
    target: Callable[[str, Choices], str | None] = lambda target, choices: target
    """Returns the target in canonical form: the letter of a choice given by its text."""
    nouns: str = "answer"
    """Words for an answer in statements, as alternatives of a pattern: "answer|label"."""
    unknown_is_an_answer: bool = False
    """True if "unknown" is an ordinary answer, not an abstention."""
    is_unclear: Callable[[str, str], bool] = lambda statement, reply: False
    """Returns whether a statement can be read in two ways, given the whole reply."""


# Sentences

VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|am|has|have|had|does|do|did|can|could|will|would|should|may|might|must|let|took|takes"
    r"|won|wins|wrote|writes|died|dies|lies|lay|ran|runs|played|plays|became|began|came|comes|founded|directed|worked"
    r"|works|made|makes|published|lived|lives|served|sang|led|built|held|covers|belongs|goes|went|gave|uses|used|taught"
    r"|studied|married|joined|moved|met|flows|agree|agrees|think|believe|know|need|see|looks?|seems?|says?|said|means?"
    r"|depends|me|you|us|your)\b|'(?:s|re|m|d|ll|ve)\s(?![A-Z])|n't\b"
    r"|^\W*(?i:i|we|you|please|here|sorry|thanks?|sure|ok(?:ay)?|hm+|hello|hi|agreed|correct|right|wrong|same|done|well"
    r"|nothing|tell|yes,|no,|\w+ing\s(?:the|a|my))(?!\w)"
)
"""Words that make a line more than a name or a phrase; titles of works have capitalized ones."""
ENDS = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d)\]]*(?=\s+[^\sa-z]|\s*\Z)|\u3002|\n\s*")
SHORT = re.compile(
    r"\b(?:[A-Z]|St|Mt|Dr|Mr|Mrs|Ms|Prof|Jr|Sr|No|Nr|vs|etc|Inc|Ltd|Co|Gen|Lt|Col|Rev|Fr|Ave|e\.g|i\.e|approx|ca)\.\Z"
)
"""A dot that does not end a sentence: after an initial or an abbreviation."""
REASON = re.compile(
    r"(?<=\S)[,;]?\s+(?:because|since(?!\s+\d)|due to|owing to|given that|even though|although|though"
    r"|as (?:it|he|she|they|we|there|the|this|that|stated|mentioned|shown)|rather than|instead of|as opposed to)\b"
    r"|(?<=\S);\s(?=[^\W\d]\w)|(?<=\S)\s?\(not\s|(?<=\S),\s+(?:where|which|whose|who|but|based on|see"
    r"|and (?:it|this|that|he|she|they)|(?:and\s)?not)\s"
    r"|(?<=\S)\s+[\u2013\u2014]\s",
    re.IGNORECASE,
)
"""The beginning of a reason, a remark or a denied alternative."""
UNKNOWN = re.compile(
    r"[\W_]{0,20}(?:that )?(?:(?:it|this|that|the answer)(?: is|'s)? )?(?:still |simply |currently )?(?:"
    r"(?:unknown|unclear|uncertain|unsure|undetermined|indetermina\w+|undecidable|inconclusive|unanswerable|impossible)"
    r"\b(?! (?-i:[A-Z]))"
    r"|not (?:\w+ )?(?:known|clear|sure|certain|given|stated|specified|provided|mentioned|available|possible|determined"
    r"|determinable|answerable)\b"
    r"|(?:can ?not|can't|could not|couldn't)(?: (?:be|say|tell|know|answer|determine|give|find)\b|\W{0,9}\Z)"
    r"|(?:i |we )?(?:do not|don't|cannot|can't) (?:know|tell|say|have|answer)\b"
    r"|(?:there is )?(?:not enough|insufficient) (?:info|data|evidence)|no (?:answer|one knows|idea)\b"
    r"|(?:the |these )?(?:\w+ ){0,2}(?:do not|does not|don't|doesn't) (?:say|mention|state|tell|specify|contain)\b"
    r"|none\b|n/a\b|\?{1,9}\W{0,9}\Z)",
    re.IGNORECASE,
)
"""An abstention at the beginning of a statement."""
DENIED = re.compile(
    r"[\W_]*(?:not|neither|never|no longer)\b[^\n]{1,200}?"
    r"(?:,?\s+but\s+(?:rather\s+)?|[,;.]\s*(?:it's|it is|rather)\s+)(?P<instead>\S[^\n]*)",
    re.IGNORECASE,
)
DOUBTFUL = re.compile(
    r"\b(?:or|maybe|might|perhaps|possibly|probably|except|anyone|anything|wrong|incorrect|rejected|hardly|barely|mostly"
    r"|partly|partially|almost|[Aa]gents? \d+)\b"
    r"|\A\W*(?:Maybe|Perhaps|Possibly|Probably|Anyone|Anything|Hardly|Partially)\b"
    r"|[^\W\d]-ish\b|\?\W*\Z|\s/\s(?!\d)|[\"\u201d] (?:is|was|are|were)\b|[\u2717\u274c]|\((?:no|or|rather|wait)\b"
)
"""Signs in a statement of several answers, of another agent, of a denial or of a reserve."""
ABOUT = re.compile(
    r"[\W_]{0,20}(?:correct|right|wrong|incorrect|clear|obvious|reasonable|simple|easy|as follows|below|above|found"
    r"|given|based|the same|unchanged|as before|determined|straightforward|indeed|therefore|that it|that the"
    r"|let (?:me|us)|in (?:the|my|your|one of) \w{0,12}\s?(?:document|passage|text|evidence|paper|article)s?)\b",
    re.IGNORECASE,
)
"""A remark about the answer instead of the answer."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, stripped; a line break also ends a sentence."""
    ended, start = list[str](), 0
    for end in ENDS.finditer(text):
        if end[0][0] == "." and SHORT.search(text[max(start, end.start() - 7) : end.start() + 1]):
            continue
        ended.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*ended, text[start:].strip()) if re.search(r"\w", sentence)]


def first(source: str) -> str:
    """Return the first sentence of a statement, or all of it if it is a list of several lines."""
    return source if "\n" in source else next(iter(sentences(source)), source)


def affirmed(source: str) -> str:
    """Return a statement without its reason and the denied alternative; empty if it only denies: "not 5".

    >>> affirmed("not 5 but 6"), affirmed("B, not C"), affirmed("Paris because it is large"), affirmed("not 5")
    ('6', 'B', 'Paris', '')
    """
    if instead := DENIED.match(source):
        return affirmed(instead["instead"])
    if re.match(r"[\W_]*(?:not|neither|never)\b", source, re.IGNORECASE):
        return ""
    return without_reason(source)


def without_reason(source: str) -> str:
    """Return a statement up to its reason, remark or denied alternative."""
    reason = REASON.search(source.lstrip())
    return source.lstrip()[: reason.start()] if reason else source


# Names within a text

OTHERWISE = re.compile(
    r"\b(?:or|and|nor|not|no|neither|either|both|except|but|without|besides|than|against|versus|vs|before|after|near|like"
    r"|(?<!city )(?<!town )(?<!village )(?<!river )(?<!island )(?<!isle )(?<!state )(?<!county )(?<!kingdom )"
    r"(?<!republic )(?<!province )(?<!lake )(?<!year )(?<!month )of)\b|&",
    re.IGNORECASE,
)
"""Words by which a text names something else than the name within it: "the father of", "anyone except", "X or"."""

OF_SUBJECT = re.compile(
    r"(?<!none )(?<!one )(?<!some )(?<!any )(?<!few )(?<!most )(?<!many )(?<!half )(?<!part )(?<!all )(?<!which )"
    r"\bof\b(?=.* (?:is|was|are|were)\b)"
)
"""An "of" that belongs to the subject of a statement and says nothing of the name behind its verb."""


def key(answer: str) -> list[str]:
    """Return the words that are compared: SQuAD's, or as written if it leaves none; "C++" is not "C#"."""
    spelled = re.sub(r"(?<=\w)\+", "plus", re.sub(r"(?<=\w)#", "sharp", re.sub(r"(?<!\w)-(?=\d)", "minus", answer)))
    return (normalise(re.sub(r"(?<=\d)\.(?=\d)", "point", spelled)) or answer.strip()).split()


def stands_in(part: str, text: str) -> bool:
    """Return whether a text contains a part as whole words."""
    inner = " ".join(key(part))
    return bool(inner) and f" {inner} " in f" {' '.join(key(text))} "


def names(part: str, text: str) -> bool:
    """Return whether a text is a name with at most an explanation of it: "the river Orn", "Orn, in the north".

    False for alternatives, a list of three, and a text about something else: "the mouth of the Orn", "Orn's".

    >>> names("Orn", "the river Orn"), names("Orn", "Orn or Mirn"), names("Orn", "the mouth of the Orn")
    (True, False, False)
    >>> names("tailor", "The sister of Ida is a tailor"), names("Ida", "The sister of Ida is a tailor")
    (True, False)
    """
    pieces = re.split(r"\s*[,;/]\s*", text.strip(" ,;/."))
    inner, outer = " ".join(key(part)), " ".join(key(pieces[0] if len(pieces) <= 2 and "," not in part else text))
    before, inside, behind = f" {outer} ".partition(f" {inner} ")
    if not inner or not inside or (len(pieces) > 2 and "," not in part):
        return False
    is_owner = re.search(rf"{re.escape(part.strip())}['\u2019]s\b", text, re.IGNORECASE)
    is_other = (
        OTHERWISE.search(OF_SUBJECT.sub("", before))
        or re.search(r"\b(?:or|and|nor|&)\b", behind)
        or DOUBTFUL.search(text)
    )
    return not (is_other or is_owner)
