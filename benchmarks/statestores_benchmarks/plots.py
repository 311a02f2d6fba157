"""The plots of results, as PNG to look at and as SVG to enlarge.

Colours are Okabe and Ito's, which people with any colour vision can tell apart, and each line also
has a marker of its own. Each engine has one colour: our line is solid, the raw driver's dashed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from statestores_benchmarks.results import CaseResult, GroupResult, Results, Spread

_BLUE, _GREEN, _ORANGE = "#0072B2", "#009E73", "#E69F00"
_RED, _PURPLE, _BLACK, _SKY = "#D55E00", "#CC79A7", "#000000", "#56B4E9"
_GREY = "#666666"

# Any, because matplotlib's type of a key lists every possible setting.
_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.color": "#E5E5E5",
    "legend.frameon": False,
    # Text stays text, and equal results give equal files.
    "svg.fonttype": "none",
    "svg.hashsalt": "statestores",
}
_INCHES = (8.0, 4.5)
_BAR_INCHES = 0.42
_DOTS = 120
_TITLE_LETTERS = 100
_TITLE_POINTS = 11
_LABELLED = (1.0, 2.0, 5.0)
"""The multiples of a power of ten that a logarithmic axis labels."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How a line is drawn."""

    colour: str
    marker: str
    dashed: bool = False


_LOOKS = (
    ("statestores, RocksDB", _Look(_BLUE, "o")),
    ("statestores, LevelDB", _Look(_GREEN, "s")),
    ("statestores, SQLite", _Look(_ORANGE, "^")),
    ("statestores", _Look(_BLUE, "o")),
    ("rocksdict", _Look(_BLUE, "o", dashed=True)),
    ("plyvel", _Look(_GREEN, "s", dashed=True)),
    ("sqlite3", _Look(_ORANGE, "^", dashed=True)),
    ("lmdb", _Look(_BLACK, "D", dashed=True)),
    ("Quix", _Look(_RED, "v")),
    ("Faust", _Look(_PURPLE, "P")),
)
_OTHERS = (
    _Look(_SKY, "X"),
    _Look(_GREEN, "s"),
    _Look(_ORANGE, "^"),
    _Look(_RED, "v"),
    _Look(_PURPLE, "P"),
    _Look(_BLACK, "D"),
)


def plot(runs: Iterable[Results], directory: Path) -> list[Path]:
    """Write the plot of each group that has one into *directory*, and return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    with mpl.rc_context(_SETTINGS):
        for results in runs:
            for group in results.groups:
                canvas = _sweep(group) or _bars(group)
                if canvas is not None:
                    made += _write(canvas, directory / group.name)
    return made


def _write(canvas: Canvas, path: Path) -> list[Path]:
    files = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg")]
    canvas.savefig(files[0], dpi=_DOTS)
    canvas.savefig(files[1], metadata={"Date": None})
    return files


def _sweep(group: GroupResult) -> Canvas | None:
    """Return lines over the number by which the cases differ."""
    sweep = group.sweep
    lines = dict.fromkeys(case.series for case in group.cases if case.series is not None)
    if sweep is None or not lines:
        return None
    canvas = Canvas(figsize=_INCHES, layout="constrained")
    axes = canvas.subplots()
    places: set[float] = set()
    looks = _looks(list(lines))
    for name, look in looks.items():
        points = [
            (case.at, found)
            for case in group.cases
            if case.series == name
            and case.at is not None
            and (found := group.figure(case, sweep.figure, quantity=sweep.quantity))
        ]
        if points:
            _line(axes, name, look, sorted(points, key=lambda point: point[0]))
            places |= {at for at, _ in points}
    axes.set_xscale("log")
    axes.set_xticks(sorted(places))
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(sweep.label)
    axes.set_ylabel(sweep.value)
    if sweep.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=_LABELLED))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    _title(canvas, group.title)
    canvas.legend(loc="outside right upper")
    return canvas


def _line(axes: Axes, name: str, look: _Look, points: Sequence[tuple[float, Spread]]) -> None:
    """Draw medians as a line, and the least and the greatest of the rounds as bars."""
    places = [at for at, _ in points]
    medians = [found.median for _, found in points]
    below = [found.median - found.least for _, found in points]
    above = [found.most - found.median for _, found in points]
    axes.errorbar(
        places,
        medians,
        yerr=[below, above],
        label=name,
        color=look.colour,
        marker=look.marker,
        markersize=6,
        markerfacecolor="white" if look.dashed else look.colour,
        linestyle="--" if look.dashed else "-",
        linewidth=1.4 if look.dashed else 2,
        capsize=2,
        elinewidth=0.8,
    )


def _bars(group: GroupResult) -> Canvas | None:
    """Return a bar for each case, the first one on top."""
    bars = group.bars
    if bars is None:
        return None
    found = [(case, spread) for case in group.cases if (spread := group.figure(case, bars.figure))]
    if not found:
        return None
    canvas = Canvas(figsize=(_INCHES[0], 1.4 + _BAR_INCHES * len(found)), layout="constrained")
    axes = canvas.subplots()
    names = [case.name for case, _ in found]
    medians = [spread.median for _, spread in found]
    axes.barh(
        names,
        medians,
        xerr=[
            [spread.median - spread.least for _, spread in found],
            [spread.most - spread.median for _, spread in found],
        ],
        color=[_BLUE if _is_ours(group, case) else _SKY for case, _ in found],
        ecolor=_GREY,
        capsize=2,
        height=0.65,
    )
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=0, right=1.15 * max(spread.most for _, spread in found))
    for place, (_, spread) in enumerate(found):
        axes.annotate(
            f"{spread.median:.3g}",
            (spread.most, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_xlabel(bars.value)
    _title(canvas, group.title)
    return canvas


def _is_ours(group: GroupResult, case: CaseResult) -> bool:
    """Return whether *case* is ours: by its name, or because there is a bound for it."""
    bounded = {target.case for target in group.targets}
    return case.name in bounded or case.name.startswith("statestores")


def _looks(names: list[str]) -> dict[str, _Look]:
    """Return a look for each line; known names have the same look in every plot."""
    looks: dict[str, _Look] = {}
    free = iter(_OTHERS * (1 + len(names) // len(_OTHERS)))
    for name in names:
        known = next((look for start, look in _LOOKS if name.startswith(start)), None)
        looks[name] = next(free) if known is None or known in looks.values() else known
    return looks


_THOUSAND, _MILLION = 1_000, 1_000_000


def _short(value: float, _place: int | None = None) -> str:
    if value >= _MILLION:
        return f"{value / _MILLION:g} M"
    return f"{value / _THOUSAND:g} k" if value >= _THOUSAND else f"{value:g}"


def _title(canvas: Canvas, title: str) -> None:
    """Write *title* over the whole width, in two lines if one would be too long."""
    if len(title) > _TITLE_LETTERS:
        middle = title.rfind(" ", 0, _TITLE_LETTERS)
        title = f"{title[:middle]}\n{title[middle + 1 :]}"
    canvas.suptitle(title, x=0.01, horizontalalignment="left", fontsize=_TITLE_POINTS)
