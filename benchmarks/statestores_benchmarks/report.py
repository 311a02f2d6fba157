"""The results as a table for people and as JSON for programs."""

import json
import os
import platform
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from statestores_benchmarks.cases import Group, Scale
from statestores_benchmarks.measurement import Measured

_PACKAGES = ("statestores", "rocksdict", "plyvel", "sqlalchemy", "pyarrow", "numpy", "msgpack")


@dataclass(frozen=True, slots=True)
class Result:
    """One group and what came of it."""

    group: Group
    """What was measured."""

    measured: list[Measured]
    """Its cases."""


def machine() -> dict[str, str]:
    """Return what the figures were measured on."""
    found = {
        "machine": f"{os.cpu_count()} cores, {_memory()}, {platform.machine()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _memory() -> str:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{pages * size / 1024**3:.0f} GiB"


def markdown(results: Iterable[Result], scale: Scale) -> str:
    """Return the tables; the best case of each is bold, whoever's it is."""
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [f"{scale.name} run, {scale.rounds} rounds: {facts}.", ""]
    for result in results:
        lines += [f"### {result.group.title}", "", *_table(result), ""]
    return "\n".join(lines)


def _table(result: Result) -> list[str]:
    """Return the rows of one group."""
    metric = result.group.metric.value
    targets = {target.case: target.at_most for target in result.group.targets}
    best = min(result.measured, key=lambda measured: measured.ratio).name
    lines = [
        f"| case | CPU us | wall us | {metric} ratio (least to most) | at most |",
        "|---|--:|--:|--:|---|",
    ]
    for measured in result.measured:
        ratio = f"{measured.ratio:.3g}"
        bound = targets.get(measured.name)
        judged = ""
        if bound is not None:
            judged = f"{bound:g}" + ("" if measured.ratio <= bound else " **missed**")
        lines.append(
            f"| {measured.name} | {median(measured.cpu):.3g} | {median(measured.wall):.3g} "
            f"| {f'**{ratio}**' if measured.name == best else ratio} "
            f"({min(measured.ratios):.3g} to {max(measured.ratios):.3g}) | {judged} |"
        )
    return lines


def write_json(results: Iterable[Result], scale: Scale, path: Path) -> None:
    """Write every round of every case to the file *path*."""
    content: dict[str, Any] = {"scale": scale.name, "machine": machine(), "groups": []}
    for result in results:
        bounds = {target.case: target.at_most for target in result.group.targets}
        content["groups"].append(
            {
                "name": result.group.name,
                "title": result.group.title,
                "operations": result.group.operations,
                "metric": result.group.metric.value,
                "cases": [
                    {
                        "name": measured.name,
                        "cpu_us": measured.cpu,
                        "wall_us": measured.wall,
                        "ratio": measured.ratio,
                        "ratios": measured.ratios,
                        "at_most": bounds.get(measured.name),
                    }
                    for measured in result.measured
                ],
            }
        )
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def missed(results: Iterable[Result]) -> list[str]:
    """Return a sentence for each target that was missed."""
    sentences = []
    for result in results:
        ratios = {measured.name: measured.ratio for measured in result.measured}
        sentences += [
            f"{result.group.name}: {target.case} took {ratios[target.case]:.3g} x, "
            f"at most {target.at_most:g} x was the target"
            for target in result.group.targets
            if ratios[target.case] > target.at_most
        ]
    return sentences
