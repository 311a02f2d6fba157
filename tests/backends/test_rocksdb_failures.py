"""What the driver raises reaches the caller as an error of the project's tree."""

import subprocess
import sys
from pathlib import Path

import pytest

from statestores.errors import (
    InvalidTypeError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.spi import Durability
from statestores_conformance.many_cases import for_each

rocksdict = pytest.importorskip(
    "rocksdict", reason="the driver of the rocksdb backend is not installed"
)

# Behind the skip, since they import the driver.
from statestores_rocksdb import RocksDBEngine  # noqa: E402
from statestores_rocksdb.failures import fail  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

PROCESS_CRASH = Durability.PROCESS_CRASH


@for_each(
    ("raised", "expected"),
    [
        (Exception("Corruption: block checksum mismatch: stored = 1"), StoreCorruptedError),
        (Exception("IO error: No such file or directory: 000009.sst"), StoreCorruptedError),
        (Exception("IO error: lock hold by current process: LOCK"), StoreLockedError),
        (
            Exception("IO error: While lock file: LOCK: Resource temporarily unavailable"),
            StoreLockedError,
        ),
        (Exception("IO error: While lock file: LOCK: No locks available"), StorageError),
        (Exception("IO error: No space left on device: 000004.log"), StorageError),
        (Exception("IO error: Input/output error: 000009.sst"), StorageError),
        (Exception("Read-only file system (os error 30)"), StorageError),
        (Exception("a text that no release had so far"), StorageError),
        (rocksdict.DbClosedError("DB instance already closed"), StoreClosedError),
        (RuntimeError("Already mutably borrowed"), StoreClosedError),
        (KeyError("raw mode only support bytes"), InvalidTypeError),
        (ValueError("raw mode only support bytes"), InvalidTypeError),
    ],
)
def test_driver_errors_are_translated(raised: Exception, expected: type[StateStoreError]) -> None:
    """The class says what it is, the message what was tried, the cause is the driver's own."""
    with pytest.raises(StateStoreError, match="cannot read a key: ") as caught:
        fail(raised, "read a key")

    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised


@for_each("raised", [MemoryError(), KeyError("k"), RuntimeError("other")])
def test_other_errors_pass_unchanged(raised: Exception) -> None:
    """Only what the driver raises is ours to translate."""
    with pytest.raises(type(raised)) as caught:
        fail(raised, "read a key")

    assert caught.value is raised


@pytest.mark.parametrize("batch", [{"k": b"v"}, {b"a": b"1", b"k": "v"}, {b"k": bytearray(b"v")}])
def test_a_batch_of_other_types_changes_nothing(tmp_path: Path, batch: dict[bytes, bytes]) -> None:
    """The driver takes exactly bytes in raw mode."""
    with RocksDBEngine.open(tmp_path) as engine:
        with pytest.raises(InvalidTypeError, match="keys and values must be bytes"):
            engine.apply(batch, PROCESS_CRASH)

        assert list(engine.scan(b"")) == []


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_the_way_is_a_storage_error(tmp_path: Path, name: str) -> None:
    """A path that cannot be a directory is named in the message."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageError, match=name):
        RocksDBEngine.open(tmp_path / name)


@pytest.mark.spec("ENG-1")
def test_the_owner_of_the_lock_is_named(tmp_path: Path) -> None:
    """A second handle learns who has the first."""
    with (
        RocksDBEngine.open(tmp_path),
        pytest.raises(StoreLockedError, match=r"in process \d+ on '.+' since "),
    ):
        RocksDBEngine.open(tmp_path)


def test_a_program_without_our_lock_is_noticed(tmp_path: Path) -> None:
    """RocksDB's own lock keeps out who opened the database with other tools."""
    foreign = rocksdict.Rdict(str(tmp_path), rocksdict.Options(raw_mode=True))
    try:
        with pytest.raises(StoreLockedError, match="another program has the database open"):
            RocksDBEngine.open(tmp_path)
    finally:
        foreign.close()

    RocksDBEngine.open(tmp_path).close()


_FILL = """
import os, resource, sys
from statestores.errors import StorageError
from statestores.spi import Durability
from statestores_rocksdb import RocksDBEngine

engine = RocksDBEngine.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(100):
    try:
        batch = {b"n": b"%d" % number, b"%03d" % number: os.urandom(5_000)}
        engine.apply(batch, Durability.PROCESS_CRASH)
    except StorageError:
        break
assert engine.get(b"n") == b"%d" % (number - 1), engine.get(b"n")
assert engine.get(b"%03d" % number) is None
assert engine.last(b"0", b"9")[0] == b"%03d" % (number - 1)
print(number - 1, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.spec("ENG-16")
def test_a_batch_that_the_disk_refuses_is_never_seen(tmp_path: Path) -> None:
    """A log that may not grow stands for a full disk: neither this process nor the next sees it."""
    filled = subprocess.run(
        [sys.executable, "-c", _FILL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    last = int(filled.stdout)

    assert 10 < last < 99
    with RocksDBEngine.open(tmp_path) as engine:
        assert engine.get(b"n") == b"%d" % last
        assert [key for key, _ in engine.scan(b"0", b"9")] == [b"%03d" % n for n in range(last + 1)]
