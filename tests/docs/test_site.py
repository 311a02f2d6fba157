"""The site's pages: all of them are in the navigation, and their links stay true."""

from pathlib import Path
from typing import Any

import draw_diagrams
import gather_site
import yaml

ROOT = Path(__file__).parents[2]


def _settings() -> dict[str, Any]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, Loader=gather_site._Plain)  # noqa: S506  # it is safe
    return found


def _listed(nav: list[Any]) -> list[str]:
    """Return the pages of *nav*, in order."""
    listed: list[str] = []
    for entry in nav:
        inner = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(inner, list):
            listed += _listed(inner)
        else:
            listed.append(inner)
    return listed


def test_every_page_is_in_the_navigation_once() -> None:
    """The strict build says so too, and this needs no build."""
    known = sorted(page.as_posix() for page in gather_site.pages() if page.suffix == ".md")
    nav = gather_site.navigation(_settings()["nav"], known)
    listed = [page for page in _listed(nav) if not page.startswith("reference")]

    assert sorted(listed) == known


def test_the_specification_and_decisions_are_listed_as_they_are_found() -> None:
    """The page of each folder comes first."""
    nav = [{"Specification": "spec"}, "README.md"]
    filled = gather_site.navigation(nav, ["README.md", "spec/01-a.md", "spec/README.md"])

    assert filled == [{"Specification": ["spec/README.md", "spec/01-a.md"]}, "README.md"]


def test_links_to_what_is_no_page_lead_to_the_repository() -> None:
    """Links to pages stay, one to a folder leads to its page, and programs are left alone."""
    known = frozenset({Path("docs/cli.md"), Path("spec/README.md")})
    text = "[a](../Makefile#x) [b](cli.md#y) [c](../spec) [d](../tools)\n```\n[e](../Makefile)\n```"
    shown = gather_site.with_links_to_files(text, Path("docs/page.md"), known, "https://h/r")

    assert shown == (
        "[a](https://h/r/blob/main/Makefile#x) [b](cli.md#y) [c](../spec/README.md) "
        "[d](https://h/r/tree/main/tools)\n```\n[e](../Makefile)\n```"
    )


def test_every_picture_is_of_the_diagram_that_its_page_has() -> None:
    """`make diagrams` draws what has changed; a picture that no page has is gone."""
    known = draw_diagrams.all_diagrams()

    assert [f"{each.picture.name}: make diagrams" for each in known if not each.is_drawn] == []
    assert {each.picture for each in known} == set(draw_diagrams.PICTURES.glob("*.svg"))
    assert len(known) >= 8


def test_a_diagram_is_shown_as_its_picture() -> None:
    """Without a library that draws in the browser, which would come from a network."""
    page = ROOT / "docs" / "architecture.md"
    shown = gather_site.with_pictures(page.read_text(encoding="utf-8"), page)

    assert "```mermaid" not in shown
    assert shown.count('<figure class="diagram">\n<svg ') == shown.count("</svg>\n</figure>") >= 8


def test_what_the_theme_would_fetch_is_in_the_tree() -> None:
    """The search of a site on a disk, and no stars of GitHub; `make docs-look` asks a browser."""
    settings = _settings()
    theme = ROOT / settings["theme"]["custom_dir"]
    kept = [*settings["extra"]["polyfills"], *settings["extra_css"], "partials/source.html"]

    assert [path for path in kept if not (theme / path).is_file()] == []
    assert "iframe-worker" in settings["extra"]["polyfills"][0]
    assert "data-md-component" not in (theme / "partials" / "source.html").read_text("utf-8")


def test_the_reference_has_every_public_package() -> None:
    """And the errors, which are public as a whole."""
    made = gather_site.references(("statestores",))

    assert "::: statestores\n" in made["reference/statestores.md"]
    assert "reference/statestores.errors.md" in made
