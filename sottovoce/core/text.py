"""Texts and numbers for a reader. Texts of models are data that must not reach a terminal as commands."""

from __future__ import annotations

import codecs
import re
import sys
import unicodedata

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"  # reorder the text around them
JOINING = re.compile("(?<=[^\x00-\u0fff])\u200d|[\ufe0e\ufe0f]|(?<=.)[\U0001f3fb-\U0001f3ff]")
PLAIN = str.maketrans({"·": "-", "×": "x", "…": ".", "–": "-", "’": "'", "→": ">", "≥": ">", "≤": "<"})
"""ASCII replacements, of the same width, for the other characters in our own texts."""
ERRORS = "readable"
"""The error handler of codecs that replaces characters of our own texts by ASCII, and others by escapes."""
UNSAFE = {"Cc", "Cs", "Zl", "Zp"}  # controls, lone surrogates, line and paragraph separators


def harmless(text: str) -> str:
    """Return a text that cannot move the cursor: control characters as escapes, tabs as spaces; line breaks stay."""
    return "".join(map(_letter, text.replace("\r\n", "\n").expandtabs(4)))


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
    """Return a text in lowercase without accents; marks of scripts in which they are vowels stay."""
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


def _letter(letter: str) -> str:
    if letter == "\n" or (unicodedata.category(letter) not in UNSAFE and letter not in BIDI):
        return letter
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(PLAIN)
    return lacking.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error(ERRORS, _escape)


def without_password(text: str) -> str:
    """Return a text without names and passwords in the addresses in it."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)
