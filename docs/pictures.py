"""Generator of pictures of the page for the README: `python docs/pictures.py`. It needs Chromium and SmolLM2.

The page shows two saved runs, of the same questions in words and under CIPHER; missing ones are run first.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "site" / "pictures"
DEBATE = "debate --sample facts --limit 8 --model smollm2 --rounds 2 --max-tokens 48"
RUNS = {"words": f"{DEBATE} --protocol nl", "cipher": f"{DEBATE} --protocol cipher"}
WIDTH, HEIGHT = 1240, 720
COLORS = 200  # of a picture; its text stays smooth, and its file below 120 kB
FIND = """
const find = (run, id) => INDEX.findIndex((row) => RUNS[row.run].name === run && row.id === id);
const heading = (text) => entries.findIndex(([d, i]) => i >= 0 && items(d)[i].text === text);
field("said").style.padding = "1rem";
"""
PICTURES = {
    "token.png": (
        "light",
        "await chooseRun(1); choose(rows[4]); keep(`${chosen}/${entries[heading('Round 1') + 2][1]}`, 3)",
    ),
    "beside.png": (
        "dark",
        "choose(find('words', 'facts/0/1')); beside = find('cipher', 'facts/0/1'); fill();"
        "messages.go(heading('Round 2'))",
    ),
}
"""File names, each with the color scheme, and the script that chooses what the page shows."""


def main() -> None:
    """Write all pictures."""
    from PIL import Image

    from tests.browser import chromium

    cli, page = [sys.executable, "cli.py"], FOLDER / "page.html"
    for name, command in RUNS.items():
        if not (FOLDER / name).exists():
            subprocess.run([*cli, *shlex.split(command), "--save", str(FOLDER / name)], cwd=ROOT, check=True)
    names = [str(FOLDER / name) for name in RUNS]
    subprocess.run([*cli, "runs", "report", *names, "--html", str(page), "--force"], cwd=ROOT, check=True)
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    with chromium() as browser:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for file, (colors, script) in PICTURES.items():
            features = [{"name": "prefers-color-scheme", "value": colors}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.get(page.as_uri())
            browser.execute_script(f"return (async () => {{ {FIND} {script} }})()")
            browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")  # drawn
            png = browser.find_element("id", "said").screenshot_as_png
            picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLORS)
            picture.save(ROOT / "docs" / "images" / file, optimize=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
