"""The page that has Kafka's names beside ours."""

import re
from pathlib import Path

import statestores as ss
from statestores import query, tasks

_PAGE = Path(__file__).parents[2] / "docs" / "kafka-names.md"
_OWNERS = (
    ss,
    query,
    tasks,
    query.QueryableStores,
    tasks.TaskManager,
    ss.KeyValueStore,
    ss.VersionedStore,
    ss.WindowStore,
    ss.SessionStore,
)


def _rows() -> list[list[str]]:
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [row for row in rows if row[1] != "here" and not set(row[1]) <= {"-"}]


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_what_the_page_says_is_here_is_here() -> None:
    """A page of names with one that does not exist sends its reader into an `AttributeError`."""
    names = {
        name
        for row in _rows()
        for code in _code(row[1])
        for name in re.findall(r"^(?:ss\.|statestores\.query\.)?([A-Za-z_]\w*(?:\.\w+)?)", code)
    } - {"statestores", "include_stale", "partition"}
    missing = {
        name
        for name in names
        if not any(hasattr(owner, name.split(".")[-1]) for owner in _OWNERS)
        and name not in {"history_retention_ms", "retain_duplicates"}  # fields of specifications
    }

    assert len(names) > 30  # the page was read
    assert missing == set()


def test_the_fields_that_the_page_names_are_those_of_a_specification() -> None:
    """They are not attributes of a store's class, and are looked for where they are."""
    versioned = ss.Versioned("v", history_retention_ms=1)
    window = ss.Window("w", retention_ms=1, window_size_ms=1, retain_duplicates=True)

    assert (versioned.history_retention_ms, window.retain_duplicates) == (1, True)
