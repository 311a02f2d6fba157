"""Draws the Mermaid diagrams of the pages: `make diagrams` keeps a picture of each in the tree.

GitHub draws the sources itself. The site shows the pictures, so that it needs neither a network nor
three megabytes of JavaScript. Only whoever changes a diagram draws: with Chromium and Mermaid's
JavaScript. A picture remembers the digest of its source, and a test compares it.
"""

import argparse
import hashlib
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "diagrams"

FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_DIGEST = re.compile(r'data-source="([0-9a-f]{64})"')

_INK, _LINE, _PAPER, _FILL, _NOTE = "#0a0101", "#0a0102", "#0a0103", "#0a0104", "#0a0105"
"""Colours that nobody has chosen: each stands for one that the page chooses."""

_CHOSEN = {
    _INK: "var(--md-default-fg-color, #202020)",
    _LINE: "var(--md-default-fg-color--light, #606060)",
    _PAPER: "var(--md-default-bg-color, #ffffff)",
    _FILL: "var(--md-code-bg-color, #f3f5f5)",
    _NOTE: "var(--md-accent-fg-color--transparent, #e4eeff)",
}
"""The variables of the site's light and dark form, and what a picture has outside of it."""

_SETTINGS = {
    "startOnLoad": False,
    "securityLevel": "strict",
    # Labels of HTML are not shown by everyone who shows SVG.
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False, "wrappingWidth": 460},
    "theme": "base",
    "themeVariables": {
        "fontFamily": "sans-serif",
        "primaryColor": _FILL,
        "primaryTextColor": _INK,
        "primaryBorderColor": _LINE,
        "mainBkg": _FILL,
        "nodeBorder": _LINE,
        "lineColor": _LINE,
        "textColor": _INK,
        "edgeLabelBackground": _PAPER,
        "actorBkg": _FILL,
        "actorBorder": _LINE,
        "actorTextColor": _INK,
        "actorLineColor": _LINE,
        "signalColor": _LINE,
        "signalTextColor": _INK,
        "noteBkgColor": _NOTE,
        "noteTextColor": _INK,
        "noteBorderColor": _LINE,
    },
}

_DRAW = """async ([settings, name, source]) => {
    mermaid.initialize(settings);
    return (await mermaid.render(name, source)).svg;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """A diagram of a page."""

    source: str
    """What is written on the page."""

    title: str
    """The heading that it is under, which says what is seen."""

    picture: Path
    """Where its picture is, named after page and heading."""

    @property
    def digest(self) -> str:
        """What the picture remembers of its source."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def is_drawn(self) -> bool:
        """Whether the picture is of this source."""
        if not self.picture.is_file():
            return False
        found = _DIGEST.search(self.picture.read_text(encoding="utf-8"))
        return found is not None and found[1] == self.digest


def diagrams(page: Path) -> Iterator[Diagram]:
    """Yield the diagrams of *page* in order."""
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        title = _HEADING.findall(text, 0, fence.start())[-1]
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        picture = PICTURES / f"{page.stem}-{slug}.svg"
        yield Diagram(source=fence[1], title=title, picture=picture)


def all_diagrams() -> list[Diagram]:
    """Return the diagrams of all pages in docs."""
    return [each for page in sorted((ROOT / "docs").rglob("*.md")) for each in diagrams(page)]


def _finished(svg: str, diagram: Diagram) -> str:
    """Return *svg* with the page's colours, a title, and the digest of its source."""
    for stand_in, chosen in _CHOSEN.items():
        svg = re.sub(stand_in, chosen, svg, flags=re.IGNORECASE)
    svg = re.sub(r' role="[^"]*"', "", svg, count=1)
    width = re.findall(r'viewBox="[-0-9.]+ [-0-9.]+ ([0-9.]+) ', svg)[0]
    svg = svg.replace('style="', f'style="--natural-width: {width}px; ', 1)
    named = f'<svg data-source="{diagram.digest}" role="img" aria-label="{diagram.title}" '
    # An empty line would end the HTML that the picture is within a page.
    return re.sub(r"\n\s*\n", "\n", svg.replace("<svg ", named, 1).strip()) + "\n"


def main() -> int:
    """Draw what has changed, and remove pictures of what is gone."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("mermaid", type=Path, help="Mermaid's JavaScript, mermaid.min.js")
    parser.add_argument("--all", action="store_true", help="draw anew what has not changed, too")
    wanted = parser.parse_args()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # the test needs no browser

    known = all_diagrams()
    for gone in set(PICTURES.glob("*.svg")) - {each.picture for each in known}:
        gone.unlink()
    PICTURES.mkdir(exist_ok=True)
    browsers = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, browsers)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=wanted.mermaid)
        for each in known:
            if wanted.all or not each.is_drawn:
                svg = page.evaluate(_DRAW, [_SETTINGS, each.picture.stem, each.source])
                each.picture.write_text(_finished(svg, each), encoding="utf-8")
                print(f"diagrams: drew {each.picture.relative_to(ROOT)}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
