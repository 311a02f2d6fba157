"""A report as a badge: the level in an image of a few hundred bytes."""

from html import escape

from statestores_conformance.levels import LEVEL_NAMES, rank_of
from statestores_conformance.report.model import Report

_LABEL = "statestores"
_COLOURS = ("#9a6700", "#857a00", "#6a8500", "#4c8c1e", "#2f8a30", "#1a7f37")
_RED = "#cf222e"
_CHARACTER_PIXELS = 7
_PADDING_PIXELS = 10


def to_badge(report: Report) -> str:
    """Return an SVG image that says which level was reached; red when something failed."""
    message = report.level or "not conforming"
    failed = report.level is None or not report.holds
    colour = _RED if failed else _COLOURS[rank_of(report.level or LEVEL_NAMES[0])]
    left, right = _width(_LABEL), _width(message)
    title = escape(f"{report.backend}: {_LABEL} {message}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,sans-serif" font-size="11">'
        f'<text x="{left / 2:g}" y="14">{_LABEL}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(message)}</text></g></svg>\n'
    )


def _width(text: str) -> int:
    return len(text) * _CHARACTER_PIXELS + _PADDING_PIXELS
