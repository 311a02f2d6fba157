"""The commands export and import."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import statestores as ss
from statestores.arrow.files.importing import open_rows_file
from statestores.logged_store import open_logged_store
from statestores.partition_reader import PartitionReader
from statestores.processing import Windowed, windowed
from statestores.serdes import serde_by_name
from statestores.serdes.mean_serde import Mean
from statestores.spi.records import TimestampedValue

Run: TypeAlias = Callable[..., Any]

T0 = 1_372_896_000_000
"""4 July 2013, midnight in UTC."""


@pytest.mark.parametrize("name", ["planes.parquet", "planes.arrow"])
@pytest.mark.parametrize("flags", [(), ("--raw",)])
def test_an_export_is_imported_as_the_same_store(
    root: Path, tmp_path: Path, succeed: Run, name: str, flags: tuple[str, ...]
) -> None:
    """Deletions and history included, with another number of partitions and in either format."""
    file, copy = tmp_path / name, tmp_path / "copy"
    exported = succeed("export", root / "planes", file, "--json", *flags).document
    imported = succeed("import", file, copy, "--partitions", 5, "--json").document

    assert exported == {"file": str(file), "rows": 100, "bytes": file.stat().st_size}
    assert imported == {"store": "planes", "rows": 100, "partitions": 5}
    before, after = _versions(root), _versions(copy)
    assert (len(before), sum(map(len, before.values()))) == (20, 75)  # of 100, without deletions
    assert after == before
    assert succeed("verify", copy).code == 0


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_an_export_with_keys_of_windows_is_imported(
    tmp_path: Path, succeed: Run, name: str
) -> None:
    """It was exported, and refused when it was needed: "writes no columns; encode value by value".

    Such a store is what a topology keeps of a mapping of windows.
    """
    specification = ss.KeyValue("kept", key=windowed(ss.utf8), value=ss.int64)
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(specification, partitions=1)
    keys = [Windowed("a", 0, 10), Windowed("", 10, 20), Windowed("a", -5, 5)]
    with open_logged_store(root, "kept", 0, backend="memory") as kept:
        kept.store.put_many(keys, [1, 2, 3])
        kept.commit()
    succeed("export", root.path, tmp_path / name)
    succeed("import", tmp_path / name, tmp_path / "copy", "--partitions", 1)

    with open_logged_store(tmp_path / "copy", "kept", 0, backend="memory") as copy:
        assert [copy.store.get(key) for key in keys] == [1, 2, 3]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_an_export_of_a_topologys_values_is_imported(
    tmp_path: Path, succeed: Run, name: str
) -> None:
    """Means and stamped values were exported, and refused when the file was needed."""
    value = serde_by_name("stamped-mean")
    specification = ss.Window(
        "means", retention_ms=100, window_size_ms=10, key=ss.utf8, value=value
    )
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(specification, partitions=1)
    means = [TimestampedValue(Mean(0.1 + 0.2, 2), 9), TimestampedValue(Mean(-1.0, 1), 0)]
    with open_logged_store(root, "means", 0, backend="memory") as kept:
        for at, mean in enumerate(means):
            kept.store.put("a", mean, at)
        kept.commit()
    succeed("export", root.path, tmp_path / name)
    succeed("import", tmp_path / name, tmp_path / "copy", "--partitions", 1)

    with open_logged_store(tmp_path / "copy", "means", 0, backend="memory") as copy:
        assert [copy.store.fetch("a", at) for at in (0, 1)] == means


def _versions(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the versions of each plane, which a later one ends."""
    state = ss.StateRoot.open(root)
    entry = state.store("planes")
    found: dict[str, list[tuple[Any, ...]]] = {}
    for number in range(entry.partitions):
        reader = PartitionReader(state.partition("planes", number), entry.specification)
        for batch in reader.rows(history=True):
            for row in batch.to_pylist():
                version = row["value"], row["valid_from"], row["valid_to"]
                found.setdefault(row["key"], []).append(version)
    return found


def test_the_deletion_of_an_unknown_key_survives_an_export(tmp_path: Path, succeed: Run) -> None:
    """A version that comes late after the import ends where the deletion was."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.Versioned("v", history_retention_ms=1_000), partitions=1)
    with open_logged_store(state, "v", 0, backend="memory") as store:
        store.store.put(b"k", None, timestamp_ms=100)
        store.commit()
    file, copy = tmp_path / "v.arrow", tmp_path / "copy"
    succeed("export", state.path, file)
    succeed("import", file, copy)

    with open_logged_store(copy, "v", 0, backend="memory") as store:
        store.store.put(b"k", b"late", timestamp_ms=50)

        assert store.store.get(b"k", as_of_ms=99) == (b"late", 50, 100)
        assert store.store.get(b"k") is None


def test_an_export_as_of_a_time_has_the_values_of_that_time(
    root: Path, tmp_path: Path, succeed: Run
) -> None:
    """It is what a scan as of that time shows, as a table with the serdes' types."""
    file = tmp_path / "then.parquet"
    succeed("export", root / "planes", file, "--as-of", "2013-07-05")
    table = pq.read_table(file)
    rows = succeed("scan", root / "planes", "--as-of", "2013-07-05", "--limit", 0, "--json").lines

    time = pa.timestamp("ms", "UTC")
    assert table.schema.types == [pa.string(), pa.string(), time, time]
    assert sorted(table["key"].to_pylist()) == [row["key"] for row in rows]
    starts = table["valid_from"].cast(pa.int64()).to_pylist()
    assert set(starts) == {row["valid_from_ms"] for row in rows}


def test_the_latest_values_are_exported_on_request(
    root: Path, tmp_path: Path, succeed: Run
) -> None:
    """One row for each key that has a value."""
    file = tmp_path / "latest.arrow"

    assert succeed("export", root / "planes", file, "--latest", "--json").document["rows"] == 15


def test_a_file_that_exists_is_not_replaced_unasked(
    root: Path, tmp_path: Path, run: Run, succeed: Run
) -> None:
    """An export may not be the end of another file."""
    file = tmp_path / "counts.arrow"
    file.write_bytes(b"precious")
    outcome = run("export", root, file, "--store", "counts")

    assert outcome.code == 2
    assert "--force replaces it" in outcome.err
    assert file.read_bytes() == b"precious"
    assert succeed("export", root, file, "--store", "counts", "--force", "--json").code == 0
    with open_rows_file(file) as rows:
        assert rows.schema.types == [pa.int64(), pa.binary()]


def test_a_failed_export_leaves_nothing(root: Path, tmp_path: Path, run: Run) -> None:
    """The name has to say the format, or the option."""
    outcome = run("export", root, tmp_path / "planes.csv", "--store", "planes")

    assert outcome.code == 2
    assert "end it in .arrow or .parquet" in outcome.err
    assert list(tmp_path.glob("*planes*")) == []


def test_a_store_without_a_changelog_moves_into_a_state_root(
    bare: Path, tmp_path: Path, succeed: Run
) -> None:
    """And from any backend: export reads the engine."""
    file, copy = tmp_path / "bare.parquet", tmp_path / "copy"
    succeed("export", bare, file)
    succeed("import", file, copy, "--partitions", 2)

    rows = succeed("scan", copy, "--json").lines
    assert [(row["key"], row["value"]) for row in rows] == [
        (row["key"], row["value"]) for row in succeed("scan", bare, "--json").lines
    ]


def test_rows_are_imported_into_an_engine_without_a_changelog(
    bare: Path, tmp_path: Path, succeed: Run
) -> None:
    """A null value deletes, and other keys stay."""
    file = tmp_path / "some.parquet"
    columns = {"key": [b"a", b"new"], "value": pa.array([None, b"1"], pa.binary())}
    pq.write_table(pa.table(columns), file)
    succeed("import", file, bare)

    keys = [row["key"] for row in succeed("scan", bare, "--json").lines]
    assert keys == [{"hex": "6100ff"}, "b", "c", "new", "ключ"]


def test_a_file_from_elsewhere_needs_a_store(tmp_path: Path, run: Run) -> None:
    """Nothing is guessed, and nothing is left behind."""
    file, target = tmp_path / "rows.parquet", tmp_path / "state"
    pq.write_table(pa.table({"key": ["a"], "value": ["b"]}), file)
    outcome = run("import", file, target)

    assert outcome.code == 2
    assert "does not say what its store should be" in outcome.err
    assert not target.exists()


def test_a_file_from_elsewhere_goes_into_a_store_that_is_there(
    tmp_path: Path, succeed: Run
) -> None:
    """Timestamps of any unit are times, and rows need no order."""
    state = ss.StateRoot.create(tmp_path / "state")
    specification = ss.Versioned("v", history_retention_ms=10, key=ss.utf8, value=ss.int64)
    state.add_store(specification, partitions=3)
    file = tmp_path / "rows.parquet"
    times = pa.array([200, 100], pa.timestamp("ms"))
    pq.write_table(pa.table({"key": ["a", "a"], "value": [2, 1], "valid_from": times}), file)
    succeed("import", file, state.path)

    assert succeed("get", state.path, "a").out == "2\n"
    assert succeed("changelog", state.path, "--limit", 1, "--json").lines[0]["value"] == 1


@pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing", b"ARROW1\0\0 and nothing"])
def test_a_damaged_file_changes_nothing(
    root: Path, tmp_path: Path, run: Run, succeed: Run, content: bytes
) -> None:
    """It is refused in one sentence, before anything is written."""
    file = tmp_path / "damaged.parquet"
    file.write_bytes(content)
    before = succeed("changelog", root, "--store", "counts", "--limit", 0).out
    outcome = run("import", file, root, "--store", "counts")

    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert succeed("changelog", root, "--store", "counts", "--limit", 0).out == before
    assert not (root / "counts" / ".writes").exists()


def test_a_bad_row_imports_none(root: Path, tmp_path: Path, run: Run, succeed: Run) -> None:
    """What was staged of the others is removed."""
    file = tmp_path / "bad.parquet"
    pq.write_table(
        pa.table({"key": ["a", "b"], "value": ["1", "not JSON"], "valid_from": [1, 2]}), file
    )
    before = succeed("changelog", root, "--store", "planes", "--limit", 0).out
    outcome = run("import", file, root, "--store", "planes")

    assert outcome.code == 1
    assert "not JSON" in outcome.err
    assert succeed("changelog", root, "--store", "planes", "--limit", 0).out == before
    assert list((root / "planes").glob(".writes/*/*")) == []


def test_a_bad_row_makes_no_store(root: Path, tmp_path: Path, run: Run, succeed: Run) -> None:
    """A new store was noted before its rows were read, and stayed, with the partitions asked for.

    Whoever repeated the import with the whole file and other ones was sent to `reshard`.
    """
    file, copy = tmp_path / "planes.parquet", tmp_path / "copy"
    succeed("export", root / "planes", file)
    whole = pq.read_table(file)
    values = pa.array(["not JSON"] * whole.num_rows, whole.schema.field("value").type)
    pq.write_table(whole.set_column(1, whole.schema.field("value"), values), tmp_path / "bad")
    outcome = run("import", tmp_path / "bad", copy, "--partitions", 5)

    assert outcome.code == 1
    assert "not JSON" in outcome.err
    assert not copy.exists()
    assert succeed("import", file, copy, "--partitions", 2, "--json").document["partitions"] == 2


def test_rows_of_another_kind_are_refused(
    root: Path, tmp_path: Path, run: Run, succeed: Run
) -> None:
    """The file says what it is."""
    file = tmp_path / "counts.arrow"
    succeed("export", root, file, "--store", "counts")
    outcome = run("import", file, root, "--store", "planes")

    assert outcome.code == 1
    assert "kind is 'key-value', expected 'versioned'" in outcome.err


def test_replace_drops_what_was_there(root: Path, tmp_path: Path, succeed: Run) -> None:
    """In the same step: the changelog has a clear, and the rows after it."""
    file = tmp_path / "one.parquet"
    pq.write_table(pa.table({"key": [1], "value": [b"only"]}), file)
    succeed("import", file, root, "--store", "counts", "--replace")

    rows = succeed("scan", root, "--store", "counts", "--json").lines
    assert [(row["key"], row["value"]) for row in rows] == [(1, "only")]


def test_rows_cannot_be_put_into_one_partition(root: Path, tmp_path: Path, run: Run) -> None:
    """They belong to the partitions of their keys."""
    file = tmp_path / "one.parquet"
    pq.write_table(pa.table({"key": [1], "value": [b"only"]}), file)
    outcome = run("import", file, root / "counts" / "0")

    assert outcome.code == 2
    assert "import into the state root" in outcome.err
