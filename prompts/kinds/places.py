"""Answers that name one thing with different qualifiers: "Los Angeles, California" and "Los Angeles, USA".

Two answers agree if the text before the comma is equal and the qualifiers are compatible: one answer has none, one's
qualifiers are among the other's, or one qualifier is a known part of the other (a state of a country). Other
qualifiers are incompatible: "Portland, Oregon" is not "Portland, Maine". A comma may also separate the items of a
list, so a qualifier counts only if it is a known country or state, or if the question asks for a place.
"""

import re

from sottovoce.prompts.kinds.marks import normalise

_STATES = {
    "United States": "Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Georgia Hawaii"
    " Idaho Illinois Indiana Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi"
    " Missouri Montana Nebraska Nevada New_Hampshire New_Jersey New_Mexico New_York North_Carolina North_Dakota Ohio"
    " Oklahoma Oregon Pennsylvania Rhode_Island South_Carolina South_Dakota Tennessee Texas Utah Vermont Virginia"
    " Washington West_Virginia Wisconsin Wyoming D.C.",
    "United Kingdom": "England Scotland Wales Northern_Ireland",
    "Canada": "Alberta British_Columbia Manitoba New_Brunswick Newfoundland Nova_Scotia Ontario Quebec Saskatchewan",
    "Australia": "New_South_Wales Queensland South_Australia Tasmania Victoria Western_Australia",
}
LIES_IN = {
    normalise(state.replace("_", " ")): normalise(country)
    for country, many in _STATES.items()
    for state in many.split()
}
"""The country of each state, in the normal form of answers."""
SAME = {
    "usa": "united states",
    "us": "united states",
    "united states of america": "united states",
    "america": "united states",
}
SAME |= {"uk": "united kingdom", "great britain": "united kingdom", "britain": "united kingdom"}
COUNTRIES = frozenset(LIES_IN.values()) | frozenset(
    "afghanistan albania algeria argentina armenia austria bangladesh belarus belgium bolivia bosnia brazil"
    " bulgaria cambodia chile china colombia croatia cuba cyprus denmark ecuador egypt estonia ethiopia finland"
    " france georgia germany ghana greece greenland hungary iceland india indonesia iran iraq ireland israel italy"
    " jamaica japan jordan kenya kuwait latvia lebanon libya lithuania luxembourg malaysia malta mexico moldova"
    " monaco mongolia morocco nepal netherlands nicaragua nigeria norway pakistan panama paraguay peru philippines"
    " poland portugal qatar romania russia serbia singapore slovakia slovenia spain sudan sweden switzerland syria"
    " taiwan thailand tunisia turkey uganda ukraine uruguay venezuela vietnam zambia zimbabwe".split()
)
ASKED = re.compile(
    r"\bwhere\b|\b(?:what|which)\s(?:\w+\s){0,2}?(?:city|town|village|place|location|county|region|neighbou?rhood|suburb"
    r"|venue|area|birthplace|hometown)\b|\bbirthplace\b",
    re.IGNORECASE,
)
HELD = re.compile(
    r"^\W*(?:(?:it|they|he|she)\s)?(?:(?:is|was|are|were)\s)?(?:held|hosted|located|based|situated|born|headquartered"
    r"|took place|takes place)?\s?(?:in|at|near)\s",
    re.IGNORECASE,
)
"""Words before a place that are not part of it: "held in"."""


def same_place(left: str, right: str, question: str) -> bool:
    """Return whether two answers name the same thing, one or both with a qualifier after a comma."""
    (one, *ones), (other, *others) = _parts(left), _parts(right)
    if not one or one != other or not (ones or others):
        return False
    is_place = bool(ASKED.search(question)) or all(_is_known(each) for each in (*ones, *others))
    return is_place and (_is_within({*ones}, {*others}) or _is_within({*others}, {*ones}))


def _parts(answer: str) -> list[str]:
    """Return the name and its qualifiers, in normal form."""
    parts = [normalise(part) for part in HELD.sub("", answer).split(",")]
    return [parts[0], *(SAME.get(part, part) for part in parts[1:])]


def _is_known(qualifier: str) -> bool:
    return qualifier in COUNTRIES or qualifier in LIES_IN


def _is_within(wide: set[str], narrow: set[str]) -> bool:
    """Return whether each wide qualifier is among the narrow ones, or is the country of one of them."""
    return all(each in narrow or each in {LIES_IN.get(other) for other in narrow} for each in wide)
