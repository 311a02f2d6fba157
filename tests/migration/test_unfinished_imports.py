"""What an import leaves: nothing when it is refused, and a note as long as it has not ended."""

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import invoke

import statestores as ss
from statestores.arrow.progress import Progress
from statestores.errors import (
    InvalidArgumentError,
    SerializationError,
    StateStoreError,
    StorageError,
    StoreMismatchError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.migration import import_as_versioned, import_peer_state, plan_peer_import
from statestores.migration.peers.source import PEER_ROW_SCHEMAS, PeerState, PeerStore
from statestores.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.serving import FollowedRoot
from statestores.spi.kinds import KEY_VALUE, Kind
from statestores.upkeep.snapshots import FileSnapshot
from statestores.verification import verify

HOMES = (b"to", b"or", b"be")
"""A key that belongs to each of three partitions."""

MISSING = r"the import of the store 'counts' into '.*' has not ended: .* partition 1, 2 is still"


class Shelf(PeerState):
    """A store of another library, with three partitions of a row each."""

    def __init__(self, path: Path, *values: bytes) -> None:
        """Keep *values*, one a partition, in *path*."""
        path.mkdir(exist_ok=True)
        self.path, self._values = path, values

    def stores(self) -> Sequence[PeerStore]:
        """Return the one."""
        numbers = tuple(range(len(self._values)))
        return [
            PeerStore(name="counts", kinds=(KEY_VALUE,), partitions=numbers, places_by_key=True)
        ]

    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the row."""
        del store
        assert partition is not None
        row = {"key": [HOMES[partition]], "value": [self._values[partition]]}
        yield pa.RecordBatch.from_pydict(row, PEER_ROW_SCHEMAS[kind])

    def offsets(self, store: str, partition: int) -> Mapping[ss.TopicPartition, int]:
        """Return what each has taken."""
        return {ss.TopicPartition(store, partition): 4}

    def close(self) -> None:
        """There is nothing to close."""


def one(number: int) -> bytes:
    """Return *number* as `statestores.int64` writes it."""
    return ss.int64.encode(number)


def into(source: PeerState, root: Path, *, fails_at: int | None = None, again: bool = False) -> int:
    """Import *source*; return how many partitions came. The disk is full at row *fails_at*."""

    def progress(done: Progress) -> None:
        if done.rows == fails_at:
            raise StorageError("the disk is full")

    plan = plan_peer_import(source, "counts", key=ss.utf8, value=ss.int64)
    done = import_peer_state(
        source, root, [plan], backend="sqlite", skip_existing=again, progress=progress
    )
    return sum(each.is_new for each in done)


def everything(directory: Path) -> dict[str, bytes | None]:
    """Return what is in *directory*: files with what they hold, but for who has locked them."""
    return {
        str(each.relative_to(directory)): (
            each.read_bytes() if each.is_file() and each.name != LOCK_FILE else None
        )
        for each in directory.rglob("*")
    }


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Make a root with the first of three partitions, at which an import has failed."""
    source = Shelf(tmp_path / "shelf", *map(one, (1, 2, 3)))
    with pytest.raises(StorageError, match="is full"):
        into(source, tmp_path / "half", fails_at=2)
    return tmp_path / "half"


@pytest.mark.spec("MIG-20", "MIG-22")
def test_a_serde_that_only_the_last_partition_refuses_leaves_nothing(tmp_path: Path) -> None:
    """The first partitions were imported by then, and the store noted with the wrong serde.

    Whoever named the right one was told that the store is another one. All partitions are read
    before the first is written now.
    """
    root = tmp_path / "away" / "root"
    wrong = Shelf(tmp_path / "shelf", one(1), one(2), b"three")
    with pytest.raises(SerializationError, match="the value of the key b'be' cannot be read back"):
        into(wrong, root)

    assert not root.parent.exists()
    assert into(Shelf(tmp_path / "shelf", *map(one, (1, 2, 3))), root) == 3


@pytest.mark.spec("MIG-22")
def test_a_refused_import_leaves_the_root_as_it_was(tmp_path: Path) -> None:
    """An empty state root stayed, and the lock of the import: readers found a root, and no store.

    Directories that were there stay, with what was in them.
    """
    values = [one(1), one(2), b"three"]
    places = [tmp_path / name for name in ("none", "empty", "root", "half")]
    places[1].mkdir()
    for place in places[2:]:
        ss.StateRoot.create(place).add_store(ss.KeyValue("other"), partitions=1)
    with pytest.raises(StorageError):
        into(Shelf(tmp_path / "shelf", *map(one, (1, 2, 3))), places[3], fails_at=2)
    for place in places:
        before = everything(place) if place.exists() else None
        with pytest.raises(SerializationError):
            into(Shelf(tmp_path / "shelf", *values), place, again=True)
        after = everything(place) if place.exists() else None

        assert after == before
    with pytest.raises(InvalidArgumentError, match="which is imported and only read"):
        into(Shelf(tmp_path / "shelf", one(1)), tmp_path / "shelf" / "root")
    assert everything(tmp_path / "shelf") == {}


@pytest.mark.spec("MIG-22")
def test_a_history_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    """The class of it: `import_as_versioned` made the root as well, and so did `import`."""
    plain = ss.StateRoot.create(tmp_path / "plain")
    plain.add_store(ss.KeyValue("words"), partitions=1)
    with ss.open_logged_store(plain, "words", backend="memory") as logged:
        logged.store.put(b"k", b"v")
        logged.commit()
    with pytest.raises(StateStoreError):
        import_as_versioned(
            plain.path, "words", tmp_path / "new", history_retention_ms=ss.DAY, backend="none"
        )

    assert not (tmp_path / "new").exists()


@pytest.mark.spec("MIG-21")
def test_readers_are_told_of_what_is_still_to_be_imported(
    half: Path, subtests: pytest.Subtests
) -> None:
    """A get said that there is no such key, a scan had a third of the rows, and verify was content.

    The import had noted what came, and nobody what was to come. Each partition that came is read as
    before.
    """
    root = ss.StateRoot.open(half)
    specification = root.store("counts").specification
    missing = root.partition("counts", 1)
    readers: dict[str, Callable[[], object]] = {
        "open_logged_store": lambda: ss.open_logged_store(root, "counts", 1),
        "the end": lambda: PartitionReader(missing, specification).end_offset,
        "rows": lambda: list(PartitionReader(missing, specification).rows()),
        "a served root": lambda: FollowedRoot(half, backend="memory"),
        "a reshard": lambda: reshard(half, "counts", 2),
        "a snapshot": FileSnapshot(directory=missing, number=1, specification=specification),
    }
    for name, read in readers.items():
        with subtests.test(name), pytest.raises(StoreMismatchError, match=MISSING):
            read()
    commands: dict[str, list[object]] = {"get": ["or"], "scan": [], "export": [half.parent / "x"]}
    for command, arguments in commands.items():
        with subtests.test(command):
            outcome = invoke(command, half, *arguments)
            assert outcome.exit_code == 1
            assert "repeat it and skip what is there already" in outcome.stderr
    with subtests.test("what came"):
        assert [
            row.num_rows
            for row in PartitionReader(root.partition("counts", 0), specification).rows()
        ] == [1]
        assert invoke("get", half, "to").stdout.split()[-1] == "1"
        assert "skip-existing" in invoke("info", half).stdout
    with subtests.test("verify"):
        failures = [each for each in verify(half) if each.is_failure]
        assert [each.path for each in failures] == [
            root.partition("counts", number).path for number in (1, 2)
        ]
        assert invoke("verify", half).exit_code == 1


@pytest.mark.spec("MIG-21")
def test_what_is_repeated_ends(half: Path, tmp_path: Path) -> None:
    """Nothing is noted any more, and all is read."""
    source = Shelf(tmp_path / "shelf", *map(one, (1, 2, 3)))
    assert into(source, half, again=True) == 2

    assert not (half / ".import" / "begun.json").exists()
    assert [each for each in verify(half) if each.is_failure] == []
    assert invoke("get", half, "or").stdout.split()[-1] == "2"


@pytest.mark.spec("MIG-21")
def test_other_partitions_do_not_end_it(half: Path, tmp_path: Path) -> None:
    """What another machine has follows by an import of its own: what is missing stays missing."""
    plan = plan_peer_import(
        Shelf(tmp_path / "shelf", *map(one, (1, 2, 3))), "counts", key=ss.utf8, value=ss.int64
    )
    assert plan.present == (0, 1, 2)
    two = Shelf(tmp_path / "two", *map(one, (1, 2)))
    plan = plan_peer_import(two, "counts", partitions=3, key=ss.utf8, value=ss.int64)
    import_peer_state(two, half, [plan], backend="sqlite", skip_existing=True)
    with pytest.raises(StoreMismatchError, match="partition 2 is still missing"):
        ss.open_logged_store(half, "counts", 2)
    with ss.open_logged_store(half, "counts", 1, backend="sqlite") as logged:
        assert logged.store.get("or") == 2
