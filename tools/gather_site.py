"""Puts the pages of the site together: build/site-pages, and the whole navigation.

Pages lie in the site as they lie in the repository, so that links between them stay as they are.
Links to files that are no pages lead to the repository. The reference has a page for each public
package, made of docstrings; specification and decisions are listed as they are found.
"""

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from draw_diagrams import FENCE, diagrams

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "site-pages"
CONFIGURATION = ROOT / "build" / "mkdocs.yml"

_FOLDERS = ("docs", "spec", "conformance", "benchmarks", "examples")
_ASSETS = frozenset({".md", ".svg", ".png", ".txt"})
_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_INSTALLED = "statestores_conformance"
_GATHERED = ("reference", "spec", "docs/decisions")
"""Places of the navigation that stand for all pages in a folder."""


def pages() -> Iterator[Path]:
    """Yield the files of the site, relative to the repository."""
    for file in sorted([*ROOT.glob("*.md"), *(f for each in _FOLDERS for f in _below(each))]):
        yield file.relative_to(ROOT)


def _below(folder: str) -> list[Path]:
    """Return the pages and pictures in *folder*; what is installed is not a page of the site."""
    found = (ROOT / folder).rglob("*")
    return [f for f in found if f.suffix in _ASSETS and _INSTALLED not in f.parts]


@cache
def repository() -> str:
    """Return where the repository is, as pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: str = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    return found


def with_links_to_files(text: str, page: Path, known: frozenset[Path], source: str) -> str:
    """Return the Markdown *text* of *page*; links to what is not *known* lead to *source*."""

    def replaced(link: re.Match[str]) -> str:
        target = (ROOT / page.parent / link[1]).resolve()
        inside = target.relative_to(ROOT)
        if inside in known:
            return link[0]
        readme = inside / "README.md"
        if readme in known:
            return f"{link[1].rstrip('/')}/README.md{link[2] or ''}"
        kind = "tree" if target.is_dir() else "blob"
        return f"{source}/{kind}/main/{inside.as_posix()}{link[2] or ''}"

    parts: list[str] = []
    at = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(replaced, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(replaced, text[at:])])


def with_pictures(text: str, page: Path) -> str:
    """Return the Markdown *text* of *page* with the pictures of its diagrams, not their sources.

    They are a part of the page, so that its light and its dark form give them their colours.
    """
    drawn = {each.source: each.picture for each in diagrams(page)}

    def replaced(fence: re.Match[str]) -> str:
        picture = drawn[fence[1]].read_text(encoding="utf-8")
        return f'<figure class="diagram">\n{picture}</figure>'

    return FENCE.sub(replaced, text)


def references(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the pages of the reference by their path."""
    found = {f"reference/{package}.md": f"# `{package}`\n\n::: {package}\n" for package in packages}
    return {**found, "reference/statestores.errors.md": _ERRORS}


_ERRORS = (
    "# `statestores.errors`\n\n::: statestores.errors\n    options:\n      members_order: source\n"
)


def navigation(nav: list[Any], known: list[str]) -> list[Any]:
    """Return *nav* with all pages of a folder in place of its name."""
    filled: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, inner),) = entry.items()
            if inner in _GATHERED:
                inner = [page for page in known if page.startswith(f"{inner}/")]
                inner.sort(key=lambda page: (not page.endswith("README.md"), page))
            elif isinstance(inner, list):
                inner = navigation(inner, known)
            filled.append({title: inner})
        else:
            filled.append(entry)
    return filled


def main() -> int:
    """Write the pages, and the configuration with the whole navigation."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = yaml.load(text, Loader=_Plain)  # noqa: S506  # of this repository, and see _Plain
    files = frozenset(pages())
    shutil.rmtree(PAGES, ignore_errors=True)
    for file in files:
        target = PAGES / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            content = with_pictures((ROOT / file).read_text(encoding="utf-8"), ROOT / file)
            shown = with_links_to_files(content, file, files, repository())
            target.write_text(shown, encoding="utf-8")
        else:
            shutil.copy(ROOT / file, target)
    from write_public_api import PUBLIC  # noqa: PLC0415  # it is beside this file

    made = references(PUBLIC)
    for name, content in made.items():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(content, encoding="utf-8")
    known = sorted([*(file.as_posix() for file in files if file.suffix == ".md"), *made])
    nav = yaml.safe_dump({"nav": navigation(settings["nav"], known)}, allow_unicode=True)
    head = text[: text.index("\nnav:\n") + 1].replace(" build/", " ")
    for here, there in _FROM_BUILD.items():
        head = head.replace(here, there)
    head = f"repo_url: {repository()}\n{head}"
    CONFIGURATION.write_text(head + nav, encoding="utf-8")
    return 0


_FROM_BUILD = {
    "custom_dir: tools/site": "custom_dir: ../tools/site",
    'paths: [".", backends, conformance]': "paths: [.., ../backends, ../conformance]",
}
"""Paths of mkdocs.yml, as the file in build/ has to name them."""


class _Plain(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
    """Reads what MkDocs reads, and makes nothing of its tags for Python."""


_Plain.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)

if __name__ == "__main__":
    sys.exit(main())
