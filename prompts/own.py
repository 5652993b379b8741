"""A reply's own statements, as against what it quotes, reports, attributes to others, supposes or denies.

Nothing here is a parser of sentences: the words around a statement are looked through for such a sign, and a statement
that has one is left out. That reads too little rather than too much, since what is not read is asked for.
"""

from __future__ import annotations

import re

BEFORE = 240  # characters of a line that are examined before a statement
BEHIND = 160  # characters behind it

OTHERS = re.compile(
    r"\b(?:if|whether|suppos\w{1,4}|assum\w{1,4}|unless|provided|would|could|might|perhaps|maybe"
    r"|agents?|others?|another|someone|somebody|opponent|debater|says|said|saying|writes?|wrote|written|claims|claimed"
    r"|argue[sd]?|heard|thinks|thought|believe[sd]|suggest(?:s|ed)?|states|stated|propose[sd]?|quot(?:e[sd]?|ing)|cited"
    r"|unlike|compared?|example|e\.g|doubt|mistaken(?:ly)?|reject(?:s|ed)?|(?:wrong|buggy|broken|naive)(?:ly)?)\b",
    re.IGNORECASE,
)
"""A sign in the sentence before a statement that it is another's, or one that is only supposed."""
DENIAL = re.compile(
    r"\b(?:never|neither|nor|incorrect\w{0,2}|instead of|rather than)\b|(?:\bnot|n't)\b(?! only\b)", re.IGNORECASE
)
"""A sign in the clause before a statement that it is denied."""
PAST = re.compile(r"\b(?:at first|initially|previously|earlier|originally|used to|before)\b", re.IGNORECASE)
"""A sign that it was stated before, and may be no longer."""
FIRST_PERSON = re.compile(
    r"\b(?:I(?:'m| am| will|'ll| would| still| now| also| therefore| again| must| do)?\s(?:keep|kept|stay|stand|stick"
    r"|say|write|get|find|conclude|answer|change|switch|agree(?:\s(?:\w+\s)?with\s[^.,;:\n]{1,40}?(?=\sthat\b))?|confirm|maintain|choose|pick|hold|repeat|revise)"
    r"|(?:my|our)\s(?:(?:own|final|new|revised|corrected|updated)\s){0,2}(?:answer|action|program|solution|choice|result))\b",
    re.IGNORECASE,
)
"""The speaker's own voice, which ends what it said of others: "Unlike agent 2, I keep"."""
CONDITION = re.compile(r"\b(?:if|unless|assuming|provided(?: that)?|supposing|in case)\b", re.IGNORECASE)
DENIED_BEHIND = re.compile(
    r"\A[^\w.!?\n]{0,9}(?:(?:is|are|was|were|would be|could be|seems)\b[^.!?\n]{0,20}?\b"
    r"(?:wrong|incorrect|not|too|false|agents?|what|only|ruled out)\b"
    r"|(?:would|could|might|says?|said|according|as claimed|by agents?|from agents?|of agents?)\b)",
    re.IGNORECASE,
)
"""What turns a statement before it into that of another, or denies it: "is what agent 2 got", "would be wrong"."""
SENTENCE_END = re.compile(r"[.!?;]['\"\u201d*)]{0,3}\s|\n")
OPENED = re.compile(r"[\u201c\u00ab\u300c](?![^\n]*[\u201d\u00bb\u300d])")


def is_own(text: str, at: int) -> bool:
    """Return whether what begins at a place of a text is stated by the text itself, as the words before it say.

    They are those of its sentence. Before something that begins a line or a fenced block, they are a line before it
    that ends in a colon. Words within quotation marks, and lines quoted as in mail (`> `), are not the text's own.

    >>> is_own("Agent 2 gets 18.", 13), is_own("Unlike agent 2, I get 25.", 22), is_own("If so, 18.", 7)
    (False, True, False)
    """
    line = text[max(0, at - BEFORE, text.rfind("\n", 0, at) + 1) : at]
    if re.match(r"\s{0,3}>", line) or _is_quoted(line):
        return False
    if not re.search(r"\w", line):  # it begins its line: a line before may announce it
        above = re.sub(r"\s*(?:```|~~~)[\w+-]{0,20}\s*\Z", "", text[max(0, at - BEFORE) : at - len(line)]).rstrip()
        line = above.rpartition("\n")[2].rpartition(",")[2] if above.rstrip("*_ ").endswith(":") else ""
    return is_own_lead(SENTENCE_END.split(line)[-1])


def is_own_lead(lead: str) -> bool:
    """Return whether the words before a statement leave it the speaker's own."""
    if PAST.search(lead):
        return False
    voice = [*FIRST_PERSON.finditer(lead)]
    lead = lead[voice[-1].end() :] if voice else lead
    return not OTHERS.search(lead) and not DENIAL.search(re.split("[,:]", lead)[-1])


def is_upheld(behind: str) -> bool:
    """Return whether the rest of a statement's sentence neither denies it, nor sets a condition, nor names another.

    >>> is_upheld(" is what agent 2 got."), is_upheld(" if all seats are meant."), is_upheld(" seats, as agent 2 says.")
    (False, False, True)
    """
    sentence = SENTENCE_END.split(behind[:BEHIND])[0]
    return not (DENIED_BEHIND.match(sentence) or CONDITION.search(sentence))


def _is_quoted(line: str) -> bool:
    """Return whether a line ends within quotation marks that something stands before."""
    opened = OPENED.search(line)
    at = opened.start() if opened else line.rfind('"') if line.count('"') % 2 else -1
    return at >= 0 and bool(re.search(r"\w", line[:at]))
