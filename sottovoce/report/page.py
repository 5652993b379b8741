"""The page of runs, as one file that makes no requests, or as a server shows it while runs go on (`view`).

Output of models is data: jinja escapes it, JSON has every "<" as an escape, so that no text can end the element that
contains it, and the scripts insert it as text. A policy in the page allows its own script, by digest, and requests to
its server if it has one.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sottovoce.core.any_types import Untyped

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("unpacked.js", "list.js", "tokens.js", "viewer.js")
"""In the order in which they are loaded."""
LIVE = (*SCRIPTS, "live.js")
STYLES = ("page.css",)


def page(*, live: bool = False, **parts: Untyped) -> str:
    """Return the page; a live one asks its server for discussions."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"embedded": embedded, "pretty": partial(json.dumps, ensure_ascii=False, indent=2)}
    texts = {"script": Markup(_text(LIVE if live else SCRIPTS)), "style": Markup(_text(STYLES))}
    return environment.get_template("page.html").render(live=live, policy=policy(live=live), **texts, **parts)


def policy(*, live: bool) -> str:
    """Return the page's Content-Security-Policy; plots, which only a file has, have their own styles."""
    style = _digest(STYLES) if live else "'unsafe-inline'"
    own = f"script-src {_digest(LIVE if live else SCRIPTS)}; style-src {style}"
    asks = "; connect-src 'self'" if live else ""
    return f"default-src 'none'; {own}; img-src data:{asks}; base-uri 'none'; form-action 'none'"


def embedded(data: object) -> Markup:
    """Return data as JSON for a script element."""
    return Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def _digest(names: tuple[str, ...]) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(_text(names).encode()).digest()).decode('ascii')}'"


@cache
def _text(names: tuple[str, ...]) -> str:
    return "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
