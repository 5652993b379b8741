"""Generator of `docs/drawings` from the mermaid text on the pages: `python docs/draw.py [--check]`.

It needs Debian's Chromium, npm, which fetches Mermaid, and the Python package selenium. Each file has the digest of
its text, so that `--check`, which needs none of these, can list files that are out of date. The site shows the files;
GitHub draws the text itself.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

DOCS = Path(__file__).resolve().parent
DRAWINGS = DOCS / "drawings"
DRAWN = re.compile(r"<!-- made: draw (.+?) -->\n```mermaid\n(.*?)```\n", re.DOTALL)
"""A drawing on a page: its subject, and its text."""
MERMAID = "mermaid@11.17.2"
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
AS_TEXT = [  # labels without HTML, which few programs show in an SVG
    (re.compile(r"\(\[<p>__(.*?)__</p>\]\)"), r"(\1)"),  # a rounded end would consist of hundreds of curves
    (re.compile(r"<hr/><small><em>(.*?)</em></small>"), r"<br/>\1"),
    (re.compile(r"&nbsp;"), " "),
]
RENDER = """
const [text, done] = arguments;
mermaid.initialize({startOnLoad: false, htmlLabels: false, fontFamily: "Helvetica, Arial, sans-serif"});
mermaid.render("drawing", text).then(({svg}) => {
  document.body.innerHTML = svg;
  const drawn = document.querySelector("svg"), style = drawn.querySelector("style");
  const used = rule => rule.selectorText && document.querySelector(rule.selectorText);
  style.textContent = [...style.sheet.cssRules].filter(used).map(rule => rule.cssText).join("\\n");
  drawn.style.background = "white";
  const named = drawn.innerHTML;
  for (const each of drawn.querySelectorAll("marker, filter, linearGradient, defs")) {
    if (!each.id || !named.includes(`#${each.id})`)) each.remove();
  }
  for (const each of drawn.querySelectorAll(".edgeLabels > g")) {
    if (!each.textContent.trim() && !each.querySelector("rect[width]")) each.remove();
  }
  for (const each of drawn.querySelectorAll("*")) {
    for (const name of each.getAttributeNames()) if (name.startsWith("data-")) each.removeAttribute(name);
  }
  return new XMLSerializer().serializeToString(drawn);
}).then(done, error => done("failed: " + error));
"""


def file_of(subject: str) -> Path:
    """Return the file of a drawing, such as "debate agents=3"."""
    return DRAWINGS / f"{re.sub(r'[^a-z0-9_]+', '-', subject)}.svg"


def texts() -> dict[Path, str]:
    """Return the mermaid text of every drawing on the pages, by file."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))]
    return {file_of(subject): text for page in pages for subject, text in DRAWN.findall(page)}


def digest(text: str) -> str:
    """Return the comment with the text's digest, as its file contains it."""
    return f"<!-- mermaid sha256 {hashlib.sha256(text.encode()).hexdigest()} -->"


def late(drawings: dict[Path, str]) -> list[Path]:
    """Return the files that are missing, out of date, or no longer on any page."""
    there = {path: path.read_text(encoding="utf-8") for path in DRAWINGS.glob("*.svg")}
    return [
        *(path for path, text in drawings.items() if digest(text) not in there.get(path, "")),
        *sorted(there.keys() - drawings.keys()),
    ]


def svg(browser: Chrome, text: str) -> str:
    """Return the drawing of a text.

    Raises:
        ValueError: Mermaid cannot draw it; the message says why.
    """
    for html, plain in AS_TEXT:
        text = html.sub(plain, text)
    drawn = str(browser.execute_async_script(RENDER, text))
    if drawn.startswith("failed: "):
        raise ValueError(drawn)
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", drawn)


@contextmanager
def mermaid() -> Iterator[Chrome]:
    """Yield a browser with a page that loads Mermaid, which npm fetches and verifies."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or sys.exit("chromium is missing: apt-get install chromium")
    for each in OPTIONS:
        options.add_argument(each)
    with TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        shutil.unpack_archive(next(Path(folder).glob("*.tgz")), folder, filter="data")
        page = Path(folder, "page.html")
        page.write_text('<meta charset="utf-8"><body></body><script src="package/dist/mermaid.min.js"></script>')
        browser = Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            browser.get(page.as_uri())
            yield browser
        finally:
            browser.quit()


def main(arguments: list[str]) -> None:
    """Draw the files that are out of date, or list them."""
    drawings = texts()
    outdated = late(drawings)
    if "--check" in arguments and outdated:
        names = ", ".join(path.relative_to(DOCS.parent).as_posix() for path in outdated)
        sys.exit(f"out of date: {names}; expected what `python docs/draw.py` draws: run it")
    if "--check" in arguments or not outdated:
        return
    DRAWINGS.mkdir(exist_ok=True)
    with mermaid() as browser:
        for path in outdated:
            if path in drawings:
                path.write_text(f"{digest(drawings[path])}\n{svg(browser, drawings[path])}\n", encoding="utf-8")
            else:
                path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
