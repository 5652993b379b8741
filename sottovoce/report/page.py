"""The page: one HTML file with its data, style and script inside, which makes no requests.

Output of models is data: jinja escapes it, and JSON has every "<" as an escape, so that no text can end the element
that contains it. A policy in the page allows its own script, by digest, and no request at all.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("unpacked.js", "list.js", "tokens.js", "viewer.js")
"""In the order in which they are loaded."""


def page(**parts: Any) -> str:  # Any: what the template names
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"embedded": embedded, "pretty": partial(json.dumps, ensure_ascii=False, indent=2)}
    digest = b64encode(hashlib.sha256(_script().encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    template = environment.get_template("page.html")
    return template.render(script=Markup(_script()), style=Markup(_read("page.css")), policy=policy, **parts)


def embedded(data: object) -> Markup:
    """Return data as JSON for a script element."""
    return Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def image(svg: bytes, title: str) -> Markup:
    """Return an SVG of any origin as an image, in which no script runs."""
    return Markup('<img src="data:image/svg+xml;base64,{}" alt="{}">').format(b64encode(svg).decode("ascii"), title)


@cache
def _script() -> str:
    return "".join(map(_read, SCRIPTS))


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
