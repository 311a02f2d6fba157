"""Files of rows from anywhere: what they say, how they are read, and what an import commits."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from statestores.arrow import export_file, export_table, import_file
from statestores.arrow.files import exporting
from statestores.arrow.files import importing as file_import
from statestores.arrow.files.format import format_from_content
from statestores.arrow.files.importing import RowsFile, _in_time_order, _time_ranges
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    StateStoreError,
    StorageError,
    StoreMismatchError,
)
from statestores.files.durable_directory import make_durable
from statestores.serdes import int64, typed, utf8
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import KeyValue, KeyValueStore, TopicPartition, Versioned

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]

COUNTS = KeyValue("counts")
RATES = Versioned("rates", history_retention_ms=1_000)
TYPED = KeyValue("typed", key=utf8, value=int64)
SORTED_ROWS = 3
ROWS = 400
FLIPS = 60

VALID_FROM = VERSIONED_ROWS.field("valid_from")


def _file(path: Path, table: pa.Table, batch_rows: int = 2) -> Path:
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def _contents(starts: list[list[int]]) -> tuple[RowsFile, list[None]]:
    """Return a file of one batch for each of *starts*, and what grows with each pass over it."""
    schema = pa.schema([VALID_FROM])
    passes: list[None] = []

    def batches() -> Any:
        passes.append(None)
        return (pa.RecordBatch.from_arrays([pa.array(each)], schema=schema) for each in starts)

    return RowsFile(Path("unused"), schema, None, batches, None), passes


def _told(said: Any) -> bytes:
    return json.dumps(said).encode()


_SAID = {"specification": {"kind": "key-value"}, "stream_time_ms": None, "typed": False}


@pytest.mark.spec("SNP-18", "LAY-24")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"no JSON", "no JSON of ours"),
        (_told([]), "must be a JSON object"),
        (b"[" * 10_000, "no JSON of ours"),
        (_told({**_SAID, "more": 1}), "'more' must be absent"),
        (_told({**_SAID, "typed": 1}), "'typed' must be true or false"),
        (_told({**_SAID, "specification": 5}), "'specification' must be an object"),
        (_told({**_SAID, "specification": {"kind": []}}), "'specification.kind' must be a text"),
        (_told({**_SAID, "stream_time_ms": "now"}), "'stream_time_ms' must be an integer"),
    ],
    ids=["text", "list", "deep", "more", "flag", "number", "kind", "time"],
)
def test_what_no_export_says_of_rows_is_refused(
    open_store: Any, tmp_path: Path, said: bytes, told: str
) -> None:
    """With the path of the file, and before anything is put.

    A file whose specification is a number ended an import in a ``TypeError``, and one that is
    nested deeply in a ``RecursionError``.
    """
    table = pa.table({"key": [b"a"], "value": [b"1"]}).replace_schema_metadata(
        {b"statestores": said}
    )
    path = _file(tmp_path / "rows.arrow", table)
    store = open_store(COUNTS)

    with pytest.raises(InvalidArgumentError) as refused:
        import_file(store, path)

    assert told in str(refused.value)
    assert str(path) in str(refused.value)
    assert not store.has_pending_writes


@pytest.mark.spec("SNP-18")
@pytest.mark.parametrize("is_typed", [False, True])
def test_a_caller_says_whether_rows_of_a_file_are_typed(
    open_store: Any, tmp_path: Path, is_typed: bool
) -> None:
    """Of a file from elsewhere, whose bytes may be those of the serdes already."""
    value = 7 if is_typed else int64.encode(7)
    path = _file(tmp_path / "rows.arrow", pa.table({"key": ["a"], "value": [value]}))
    store = typed(open_store(TYPED), TYPED)

    import_file(store, path, typed=is_typed)

    assert store.get("a") == 7


@pytest.mark.spec("SNP-18")
def test_whoever_commits_an_import_commits_each_batch(open_store: Any, tmp_path: Path) -> None:
    """With the offsets that it has; a processor's store is its runtime's to commit."""
    path = _file(tmp_path / "rows.arrow", pa.table({"key": list("abcde"), "value": [1] * 5}))
    log = TopicPartition("log", 0)
    store = open_store(TYPED)
    below = for_processors(typed(store, TYPED), "the runtime does")
    committed: list[int] = []

    def commit() -> None:
        committed.append(len(list(store.range())))
        store.commit({log: len(committed)})

    with pytest.raises(CapabilityNotSupportedError, match="the runtime does"):
        import_file(below, path)
    assert import_file(below, path, commit=commit) == 5
    assert (committed, store.committed_offset(log)) == ([2, 4, 5], 3)
    nothing: Any = None
    with pytest.raises(InvalidTypeError, match="expected an open store"):
        import_file(nothing, path)


@pytest.mark.spec("SNP-18")
def test_rows_are_not_imported_into_half_a_store(open_store: Any, tmp_path: Path) -> None:
    """The commit of the import would make it look whole."""
    path = _file(tmp_path / "rows.arrow", pa.table({"key": [b"a"], "value": [b"1"]}))
    store = open_store(COUNTS)
    store.commit({restore_mark(COUNTS): 1})

    with pytest.raises(StoreMismatchError, match="half restored"):
        import_file(store, path)
    assert list(store.range()) == []


def test_versions_without_times_are_refused_by_name(open_store: Any, tmp_path: Path) -> None:
    """And not as a column that a table misses."""
    path = _file(tmp_path / "rows.arrow", pa.table({"key": [b"a"], "value": [b"1"]}))

    with pytest.raises(InvalidArgumentError, match="valid_from"):
        import_file(open_store(RATES), path)


@pytest.mark.spec("SNP-18")
@pytest.mark.parametrize(
    ("starts", "ranges"),
    [
        ([[]], []),
        ([[4, 1], [1, 2, 3], [3, 3, 3, 5]], [(1, 2), (3, 3), (4, 5)]),
        ([[1, 2, 3]], [(1, 3)]),
        ([[1, 2, 3, 4]], [(1, 3), (4, 4)]),
        ([[7, 7], [7, 7, 7]], [(7, 7)]),
    ],
)
def test_a_file_is_read_once_for_as_many_rows_as_are_sorted(
    monkeypatch: pytest.MonkeyPatch, starts: list[list[int]], ranges: list[tuple[int, int]]
) -> None:
    """And once for the ranges: more passes are time, and fewer memory."""
    monkeypatch.setattr(file_import, "_SORTED_ROWS", SORTED_ROWS)
    contents, passes = _contents(starts)

    assert _time_ranges(contents, VALID_FROM) == ranges
    assert len(passes) == 1
    given = [
        batch.column("valid_from").to_pylist() for batch in _in_time_order(contents, VALID_FROM)
    ]
    assert len(passes) == 2 + len(ranges)
    assert [time_ms for batch in given for time_ms in batch] == sorted(
        time_ms for batch in starts for time_ms in batch
    )


@pytest.mark.spec("SNP-18")
def test_rows_of_one_moment_are_given_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more of them than memory holds; a batch without any is none."""
    monkeypatch.setattr(file_import, "_SORTED_ROWS", SORTED_ROWS)
    contents, _ = _contents([[7, 7], [1], [7, 7, 7]])

    given = [
        batch.column("valid_from").to_pylist() for batch in _in_time_order(contents, VALID_FROM)
    ]

    assert given == [[1], [7, 7], [7, 7, 7]]


@pytest.mark.spec("SNP-17")
@pytest.mark.parametrize("name", ["rows.arrow", "rows.parquet"])
def test_an_export_is_on_disk_before_it_has_its_name(
    counts: BytesStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """And the name is, when `export_file` returns: a power failure leaves all of it or nothing."""
    path = tmp_path / name
    seen: list[tuple[bool, bool]] = []

    def note(made: Path) -> None:
        seen.append((made == tmp_path, path.exists()))
        assert made == tmp_path or pa.OSFile(str(made)).size() > 0
        make_durable(made)

    monkeypatch.setattr(exporting, "make_durable", note)

    export_file(counts, path)

    assert seen == [(False, False), (True, True)]
    assert format_from_content(path) == path.suffix[1:]


@pytest.mark.spec("SNP-17", "SNP-18")
def test_a_flipped_bit_of_a_parquet_file_is_found(open_store: Any, tmp_path: Path) -> None:
    """Pages have checksums: values that are random are not taken for others."""
    dice = random.Random(17)
    store = open_store(COUNTS)
    store.put_many(
        [b"%04d" % key for key in range(ROWS)], [dice.randbytes(50) for _ in range(ROWS)]
    )
    store.commit({})
    path = tmp_path / "rows.parquet"
    export_file(store, path)
    right, data = export_table(store), path.read_bytes()
    refused = 0
    for at in range(8, len(data) - len(data) // 4, len(data) // FLIPS):
        path.write_bytes(data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :])
        copy = open_store(COUNTS, path=f"copy-{at}")
        try:
            import_file(copy, path)
        except StateStoreError:
            refused += 1
        else:
            assert export_table(copy) == right

    assert refused > FLIPS // 2


@pytest.mark.spec("SNP-18")
def test_a_file_that_cannot_be_read_is_named(
    open_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was tried."""
    path = _file(tmp_path / "rows.arrow", pa.table({"key": [b"a"], "value": [b"1"]}))

    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(file_import, "format_from_content", fail)

    with pytest.raises(StorageError, match=r"cannot read '.*rows\.arrow'"):
        import_file(open_store(COUNTS), path)


def test_metadata_of_others_says_nothing(open_store: Any, tmp_path: Path) -> None:
    """A file of pandas describes itself as well."""
    table = pa.table({"key": ["a"], "value": [3]}).replace_schema_metadata({b"pandas": b"[[["})
    pq.write_table(table, tmp_path / "rows.parquet")

    assert import_file(typed(open_store(TYPED), TYPED), tmp_path / "rows.parquet") == 1
