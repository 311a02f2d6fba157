"""A store without history becomes a versioned one by what its changelog says of times."""

from pathlib import Path

import pyarrow as pa
import pytest

import statestores as ss
from statestores.changelog import KEY_VALUE_CHANGES, ChangelogReader
from statestores.errors import InvalidArgumentError, StoreMismatchError
from statestores.migration import import_as_versioned
from statestores.staging.staged_write import write_at_once

WORDS: ss.KeyValue[str, str] = ss.KeyValue("words", key=ss.utf8, value=ss.utf8)
PRICES: ss.TimestampedKeyValue[str, int] = ss.TimestampedKeyValue(
    "prices", key=ss.utf8, value=ss.int64
)
INPUT = ss.TopicPartition("input", 0)


def rows(key: str, value: bytes) -> pa.RecordBatch:
    """Return one change."""
    return pa.RecordBatch.from_pydict({"key": [key.encode()], "value": [value]}, KEY_VALUE_CHANGES)


@pytest.mark.spec("MIG-19")
def test_a_key_value_store_was_so_from_its_commits_on(tmp_path: Path) -> None:
    """The times are those that the changelog's frames carry, and deletions end what they delete."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(WORDS, partitions=1)
    with ss.open_logged_store(root, WORDS, backend="memory") as logged:
        for offset, value in enumerate(["a", "b", None]):
            logged.store.put("key", value)
            logged.store.put("other", "same")
            logged.commit({INPUT: offset})
    write_at_once(root, "words", [rows("new", b"x")], "overwrite")
    with ChangelogReader.open(root.partition("words", 0).changelog, WORDS.kind) as log:
        times = [frame.appended_at_ms for frame in log.read()][:3]

    [done] = import_as_versioned(
        root.path,
        "words",
        root.path,
        name="history",
        history_retention_ms=ss.DAY,
        backend="memory",
    )

    assert done.refused == 0
    with ss.open_logged_store(root.path, "history", backend="memory") as logged:
        store = logged.store
        versions = [
            (each.value, each.valid_from_ms)
            for each in store.history("key", 0, 1 << 62)
            if each.value is not None
        ]
        # Commits within one millisecond leave the last of them.
        by_time = dict(zip(times, ["a", "b", None], strict=True))
        assert {time: value for value, time in versions} == {
            time: value for time, value in by_time.items() if value is not None
        }
        assert store.get("other") is None
        assert store.get("new") is not None


@pytest.mark.spec("MIG-19")
def test_timestamps_are_the_times_of_versions(tmp_path: Path) -> None:
    """Whatever the order of commits; a deletion has none, and is at the latest before it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(PRICES, partitions=1)
    with ss.open_logged_store(root, PRICES, backend="memory") as logged:
        for key, value, time in (("tea", 3, 1_000), ("milk", 1, 5_000), ("tea", 2, 400)):
            logged.store.put(key, value, timestamp_ms=time)
            logged.commit()
        logged.store.delete("tea")
        logged.commit()

    import_as_versioned(
        root.path, "prices", tmp_path / "new", history_retention_ms=ss.DAY, backend="memory"
    )

    with ss.open_logged_store(tmp_path / "new", "prices", backend="memory") as logged:
        found = [logged.store.get("tea", as_of_ms=at) for at in (399, 400, 1_000, 4_999, 5_000)]
        assert [each and each.value for each in found] == [None, 2, 3, 3, None]


@pytest.mark.spec("MIG-19")
def test_what_cannot_become_versions_is_refused(tmp_path: Path) -> None:
    """A store that has times of its own, and one whose name is taken."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.Versioned("rates", history_retention_ms=1), partitions=1)
    root.add_store(WORDS, partitions=1)
    with ss.open_logged_store(root, WORDS, backend="memory"):
        pass

    with pytest.raises(InvalidArgumentError, match="versioned store, whose rows have times"):
        import_as_versioned(root.path, "rates", tmp_path / "new", history_retention_ms=1)
    with pytest.raises(StoreMismatchError, match="already"):
        import_as_versioned(root.path, "words", root.path, history_retention_ms=1)
