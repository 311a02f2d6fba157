"""Looks at the site in a browser, from the disk: `make docs-look`, after `make docs`.

No page may ask anybody for anything, none may have an error, the search has to find, and diagrams
have to be drawn. Pictures of some pages go into docs/site.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Request, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
PICTURES = ROOT / "docs" / "site"

_SHOWN = (
    ("home", "light", "index.html", ""),
    ("search", "light", "index.html", "restore snapshot"),
    ("diagrams", "dark", "docs/architecture.html#the-way-of-a-commit", ""),
    ("reference", "dark", "reference/statestores.html", ""),
)
"""The pictures: name, form, page, and what is looked for."""


def _watched(context: BrowserContext, troubles: list[str]) -> Page:
    """Return a page of which every request and every error is noted in *troubles*."""
    page = context.new_page()

    def requested(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "about:")):
            troubles.append(f"{page.url} asks for {request.url}")

    page.on("request", requested)
    page.on("pageerror", lambda error: troubles.append(f"{page.url}: {error}"))
    return page


def main() -> int:
    """Open every page; return 1 when something is wrong."""
    troubles: list[str] = []
    browsers = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, browsers)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = _watched(browser.new_context(), troubles)
        pages = sorted(SITE.rglob("*.html"))
        for file in pages:
            page.goto(file.as_uri(), wait_until="load")
        for name, form, path, words in _SHOWN:
            dark = form == "dark"
            context = browser.new_context(
                color_scheme="dark" if dark else "light",
                viewport={"width": 1280, "height": 720},
            )
            shown = _watched(context, troubles)
            shown.goto(f"{SITE.as_uri()}/{path}")
            if words:
                shown.locator("input[name=query]").first.click()
                shown.keyboard.type(words)
                shown.wait_for_selector(".md-search-result__item")
            if name == "diagrams" and not shown.locator("figure.diagram svg").count():
                troubles.append(f"{path}: no diagram is drawn")
            PICTURES.mkdir(exist_ok=True)
            shown.screenshot(path=PICTURES / f"{name}.png")
        browser.close()
    for each in troubles:
        print(f"site: {each}", file=sys.stderr)
    print(f"site: {len(pages)} pages, {len(troubles)} troubles; pictures in docs/site")
    return 1 if troubles or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
