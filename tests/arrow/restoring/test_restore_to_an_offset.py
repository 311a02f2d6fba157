"""A restore up to an offset, for every kind of store: that commit, and not the one after it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores import arrow as ssa
from statestores.changelog import ChangelogReader

INPUT = ss.TopicPartition("in", 0)
COMMITS = 4

KINDS: dict[str, tuple[Any, Callable[[Any, int], object]]] = {
    "key-value": (ss.KeyValue("s"), lambda s, n: s.put(b"k", b"%d" % n)),
    "timestamped": (ss.TimestampedKeyValue("s"), lambda s, n: s.put(b"k", b"%d" % n, n)),
    "ttl": (ss.TimestampedKeyValue("s", ttl_ms=1_000), lambda s, n: s.put(b"k", b"%d" % n, n)),
    "versioned": (
        ss.Versioned("s", history_retention_ms=1_000),
        lambda s, n: s.put(b"k", b"%d" % n, n),
    ),
    "window": (
        ss.Window("s", retention_ms=1_000, window_size_ms=1),
        lambda s, n: s.put(b"k", b"%d" % n, n),
    ),
    "duplicates": (
        ss.Window("s", retention_ms=1_000, window_size_ms=1, retain_duplicates=True),
        lambda s, n: s.put(b"k", b"%d" % n, n),
    ),
    "session": (ss.Session("s", retention_ms=1_000), lambda s, n: s.put(b"k", n, n, b"%d" % n)),
}


@pytest.mark.spec("SNP-10")
@pytest.mark.parametrize("engine_name", ["memory", "sqlite"])
@pytest.mark.parametrize(("specification", "write"), KINDS.values(), ids=list(KINDS))
def test_a_restore_reaches_the_offset_and_no_further(
    specification: Any, write: Callable[[Any, int], object], engine_name: str, tmp_path: Path
) -> None:
    """At once, and in two steps: a frame too many was noticed for key-value stores only."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(specification, partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="memory") as logged:
        for number in range(COMMITS):
            write(logged.store, number)
            logged.commit({INPUT: number})
    for before in (None, 0, 1):
        for to_offset in range((before or 0), COMMITS):
            directory = tmp_path / f"{before}-{to_offset}"
            with (
                ss.open_store(directory, specification, backend=engine_name) as store,
                ChangelogReader.open(root.partition("s", 0).changelog) as log,
            ):
                if before is not None:
                    ssa.restore(store, changelog=log, to_offset=before)
                report = ssa.restore(store, changelog=log, to_offset=to_offset)

                assert (report.offset, store.position.get(INPUT)) == (to_offset, to_offset)
