"""A reply's own statements, as opposed to text that it quotes, reports, attributes to others, supposes or denies.

Sentences are not parsed. The words around a statement are searched for signs that it is another's, and a statement with
such a sign is left out. This errs on the side of reading too little, because an agent is asked again if no answer is
read.
"""

from __future__ import annotations

import re

BEFORE = 240  # characters of a line that are examined before a statement
BEHIND = 160  # characters behind it
SECTION = 600  # characters in which a heading is looked for

SPEAKER = (
    r"(?:agents?|(?:the )?others|(?:the )?other (?:agents?|debaters?|sides?|replies)|someone|somebody|opponents?"
    r"|debaters?|partners?|colleagues?|(?:affirmative|negative)(?: side)?|view \d+"
    r"|(?:players?|users?|neighbou?rs?)['\u2019]s?)"
)
OTHERS = re.compile(
    rf"\b(?:{SPEAKER}|if|whether|suppos\w{{1,4}}|assum\w{{1,4}}|unless|provided|depending|would|could|might|may be"
    r"|perhaps|maybe|possibly|either|tempting|trap|slip|says|said|saying|writes|wrote|written|claims|claimed|argue[sd]?|heard"
    r"|thinks|thought|believe[sd]|suggest(?:s|ed)?|states|stated|propose[sd]?|quot(?:e[sd]?|ing)|cited|according to"
    r"|unlike|compared?|example|e\.g|doubt|mistaken(?:ly)?|reject(?:s|ed)?|(?:wrong|buggy|broken|naive)(?:ly)?"
    r"|(?:their|his|her|your)\s(?:\w+\s)?(?:answer|box|result|solution|reply|claim|value|action|program))\b"
    r"|\A\W*(?:had|were|should)\s(?:I|it|s?he|we|they|this|that|the)\b",
    re.IGNORECASE,
)
"""A sign in the sentence before a statement that it is another's, or one that is only supposed."""
DENIAL = re.compile(
    r"\b(?:never|neither|nor|incorrect\w{0,2}|instead of|rather than|far from)\b|(?:\bnot|n't)\b(?! only\b)",
    re.IGNORECASE,
)
"""A sign in the clause before a statement that it is denied."""
PAST = re.compile(
    r"\b(?:at first|initially|previously|formerly|earlier|originally|used to|before|my first)\b", re.IGNORECASE
)
"""A sign that it was stated before, and may be no longer."""
FIRST_PERSON = re.compile(
    r"\b(?:I(?:'m| am| will|'ll| would| still| now| also| therefore| again| must| do)?\s(?:keep|kept|stay|stand|stick"
    r"|say|write|get|find|conclude|answer|change|switch|agree(?:\s(?:\w+\s)?with\s[^.,;:\n]{1,40}?(?=\sthat\b))?|confirm|maintain|choose|pick|hold|repeat|revise)"
    r"|(?:my|our)\s(?:(?:own|final|new|revised|corrected|updated)\s){0,2}(?:answer|action|program|solution|choice|result))\b|,\sbut\s*\Z"
    r"|\b(?:based on|using|considering|given|after \w{2,20}ing)\b[^,:.\n]{1,120}[,:]\s*\Z",
    re.IGNORECASE,
)
"""The speaker's own voice, which ends what it said of others: "Unlike agent 2, I keep"."""
CONDITION = re.compile(r"\b(?:if|unless|assuming|provided(?: that)?|supposing|in case|as long as)\b", re.IGNORECASE)
DENIED_BEHIND = re.compile(
    rf"\b(?:{SPEAKER}|wrong|incorrect|not|never|cannot|what|refuted|rejected|fails?|belongs|guess|until|impossible|unlikely"
    r"|trap|off by|too|would|could|might|says?|said|when|false)\b|n't\b|[\u2717\u274c?]",
    re.IGNORECASE,
)
"""Words behind a statement that deny it or give it to another: "is what agent 2 got", "would be wrong"."""
REMARK = re.compile(rf"\W{{0,9}}\((?:\W|\b(?:{SPEAKER}|\d+|wrong|rejected|no|not|mine)\b){{1,9}}\)", re.IGNORECASE)
"""A remark in brackets that does nothing else: "(agent 2)", "(wrong!)"."""
HEADER = re.compile(
    rf"^[^\w\n]{{0,9}}{SPEAKER}(?:[ _]?\d+)?(?:['\u2019]s?(?: \w{{1,20}}){{1,2}})?"
    r"(?:[^\w\n]{0,9}|[^\n]{0,60}:[^\w\n]{0,4})$"
    r"|^[ \t]{0,3}(?:#{1,6}[ \t]|\*\*)[^\n]{1,80}$|^</?\w{1,20}>$"
    r"|^[^\w\n]{0,9}(?:my|our|i|final|conclusion|decision|verdict|answer|result|comparison)\b[^\n]{0,60}$",
    re.IGNORECASE,
)
"""A line that heads what follows: another speaker's name or what it wrote, a heading, a tag, or words of one's own."""
SENTENCE_END = re.compile(r"[.!?;]['\"\u201d*)]{0,3}\s|\n")
OPENED = re.compile(r"[\u201c\u00ab\u300c](?![^\n]*[\u201d\u00bb\u300d])")


def is_own(text: str, at: int) -> bool:
    """Return whether a text itself makes the statement that begins at a place, judged by the words before it.

    These are the words of its sentence. For a statement at the beginning of a line or a fenced block, they are a line
    before it that ends in a colon. Words within quotation marks, lines quoted as in mail (`> `), and text under a
    heading that names another speaker are not the text's own.

    >>> is_own("Agent 2 gets 18.", 13), is_own("Unlike agent 2, I get 25.", 22), is_own("If so, 18.", 7)
    (False, True, False)
    """
    line = text[max(0, at - BEFORE, text.rfind("\n", 0, at) + 1) : at]
    opened = OPENED.search(line)
    quote = opened.start() if opened else line.rfind('"') if line.count('"') % 2 else 0
    if re.search(r"\w", line[: max(quote, 0)]) or re.match(r"\s{0,3}>", line):
        return False
    if _is_of_another(text[max(0, at - SECTION) : at - len(line)]):
        return False
    if not re.search(r"\w", line):  # it begins its line: a line before may announce it
        above = re.sub(r"\s*(?:```|~~~)[\w+-]{0,20}\s*\Z", "", text[max(0, at - BEFORE) : at - len(line)]).rstrip()
        line = above.rpartition("\n")[2].rpartition(",")[2] if above.rstrip("*_ ").endswith(":") else ""
    return is_own_lead(SENTENCE_END.split(line)[-1])


def _is_of_another(section: str) -> bool:
    """Return whether the last line that heads the end of a text names another speaker."""
    lines = reversed(section.split("\n"))
    header = next((line for line in lines if HEADER.match(line)), "")
    is_named = re.search(rf"(?<![^\W_]){SPEAKER}(?![^\W\d_])", header, re.IGNORECASE)
    return bool(is_named) and not header.startswith("</") and not FIRST_PERSON.search(header)


def is_own_lead(lead: str) -> bool:
    """Return whether the words before a statement leave it the speaker's own."""
    if PAST.search(lead):
        return False
    voice = [*FIRST_PERSON.finditer(lead)]
    lead = lead[voice[-1].end() :] if voice else lead
    return not OTHERS.search(lead) and not DENIAL.search(lead.rpartition(",")[2])


def is_upheld(behind: str) -> bool:
    """Return True if the clause after a statement does not deny it, set a condition, or name another speaker.

    >>> is_upheld(" is what agent 2 got."), is_upheld(" if all are meant."), is_upheld(", not 18 as agent 2 says.")
    (False, False, True)
    """
    if re.match(r"\s+[A-Z]", behind):  # another sentence
        return True
    clause = re.split(r"[,;:(.!\n\u2013\u2014]", behind[:BEHIND].lstrip("*_$})] "), maxsplit=1)[0]
    return not (DENIED_BEHIND.search(clause) or CONDITION.search(clause) or REMARK.match(behind[:BEHIND]))
