"""Texts and numbers for a reader. Texts of models are data that must not reach a terminal as commands."""

from __future__ import annotations

import codecs
import os
import re
import sys
import unicodedata

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"  # reorder the text around them
JOINING = re.compile("(?<=[^\x00-\u0fff])\u200d|[\ufe0e\ufe0f]|(?<=.)[\U0001f3fb-\U0001f3ff]")
PLAIN = str.maketrans({"·": "-", "×": "x", "…": ".", "–": "-", "’": "'", "→": ">", "≥": ">", "≤": "<"})
"""ASCII replacements, of the same width, for the other characters in our own texts."""
ERRORS = "readable"
"""The error handler of codecs that replaces characters of our own texts by ASCII, and others by escapes."""
UNSAFE = re.compile(f"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029{BIDI}]")
"""Controls, lone surrogates, line and paragraph separators, and signs that reorder the text around them."""


def harmless(text: str) -> str:
    """Return a text that cannot move the cursor: control characters as escapes, tabs as spaces; line breaks stay."""
    return UNSAFE.sub(
        lambda letter: f"\\x{ord(letter[0]):02x}" if ord(letter[0]) < 256 else f"\\u{ord(letter[0]):04x}",
        text.replace("\r\n", "\n").expandtabs(4),
    )


def steady(text: str) -> str:
    """Return the text in a form that has the same width on every terminal, without joined or modified emoji.

    Terminals disagree on the width of emoji sequences, and a line that is wider than its layout breaks borders.
    """
    return JOINING.sub("", harmless(text))


def one_line(text: str) -> str:
    """Return a harmless text on one line."""
    return harmless(" ".join(text.split("\n")))


ACCENT = re.compile("[\u0300-\u036f]")
STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h"})
"""Letters that Unicode does not take apart."""


def folded(text: str) -> str:
    """Return a text in lowercase without accents; vowel marks of other scripts stay."""
    plain = ACCENT.sub("", unicodedata.normalize("NFKD", text.casefold().translate(STROKES)))
    return unicodedata.normalize("NFKC", plain)


def say(text: str, *, error: bool = False) -> None:
    """Print a harmless text to stdout, or to stderr: all plain lines of the command line pass through here."""
    print(harmless(text), file=sys.stderr if error else sys.stdout, flush=error)


def shortened(text: str, most: int = 80) -> str:
    """Return the beginning of a text on one harmless line."""
    line = one_line(text.strip())
    return line if len(line) <= most else line[:most] + " …"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 row", "2 rows"."""
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


def figure(value: float) -> str:
    """Return a number with three significant digits, or whole if that has more: 0.667, 12.4, 1,250."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def amount(nbytes: float) -> str:
    """Return a number of bytes as text with a unit, to three digits."""
    for unit in ("bytes", "kB", "MB"):
        if nbytes < 999.5:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} GB" if nbytes < 999.5 else f"{nbytes:,.0f} GB"


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(PLAIN)
    return lacking.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error(ERRORS, _escape)


def without_password(text: str) -> str:
    """Return a text without names and passwords in the addresses in it."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


SECRET = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)(?:_|$)")
"""In the name of a variable of the environment that has a secret."""
SHORTEST_SECRET = 8  # characters; the value of TOKENIZERS_PARALLELISM=1 is no secret
PART = 12
"""Characters of a secret that are replaced wherever they stand, since a server may quote it cut."""
PLACE = re.compile(r"[/~.]|\w+://")
"""The beginning of a path or an address, of which parts are no secret: HF_TOKEN_PATH."""
UNIT = re.compile(r"%(?:25)*[0-9A-Fa-f]{2}|.", re.DOTALL)
"""A character, which may be percent-encoded, also several times."""


def without_secrets(text: str) -> str:
    """Return a text with the names of variables of the environment instead of their secrets. See `without_secret`."""
    for variable, value in os.environ.items():
        if SECRET.search(variable.upper()) and len(value) >= SHORTEST_SECRET:
            text = without_secret(text, value, f"${variable}")
    return text


def without_secret(text: str, secret: str, sign: str) -> str:
    """Return a text with a sign instead of a secret and of each part of it, plain or percent-encoded."""
    units = UNIT.findall(text) if "%" in text else text
    plain = "".join(chr(int(unit[-2:], 16)) if len(unit) > 1 else unit for unit in units) if "%" in text else text
    n = len(secret) if PLACE.match(secret) else min(PART, len(secret))
    parts = [part for i in range(len(secret) - n + 1) if (part := secret[i : i + n]) in plain]
    if not parts:
        return text
    hidden, pieces, end = bytearray(len(plain)), list[str](), 0
    for match in re.finditer(f"(?={'|'.join(map(re.escape, parts))})", plain):
        hidden[match.start() : match.start() + n] = b"x" * n
    for run in re.finditer(b"x+", hidden):
        pieces += [*units[end : run.start()], sign]
        end = run.end()
    return "".join([*pieces, *units[end:]])
