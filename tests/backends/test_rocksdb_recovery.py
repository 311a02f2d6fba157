"""What opening does about a crash, and about damage in RocksDB's logs and manifest."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statestores.errors import StoreCorruptedError
from statestores.spi import Durability

pytest.importorskip("rocksdict", reason="the driver of the rocksdb backend is not installed")

# Behind the skip, since it imports the driver.
from statestores_rocksdb import RocksDBEngine
from statestores_rocksdb.log_structure import read_structure

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

SEED = 889
COMMITS = 300

_CRASH = """
import os, sys
from rocksdict import Options, Rdict, WriteBatch

options = Options(raw_mode=True)
options.create_if_missing(True)
options.set_write_buffer_size(128 << 10)
# Several logs that are not in a table yet, which a crash meets during a flush only.
options.set_max_write_buffer_number(6)
options.set_min_write_buffer_number_to_merge(5)
database = Rdict(sys.argv[1], options)
for number in range(1, int(sys.argv[2]) + 1):
    batch = WriteBatch(raw_mode=True)
    batch[b"%04d" % number] = os.urandom(1_000)
    batch[b"last"] = b"%d" % number
    database.write(batch)
os.kill(os.getpid(), 9)
"""


_CRASH_WITH_OLD_LOG = """
import os, sys
from pathlib import Path
from statestores.spi import Durability
from statestores_rocksdb import RocksDBEngine

engine = RocksDBEngine.open(sys.argv[1])
engine.apply({b"a": b"1"}, Durability.PROCESS_CRASH)
engine.apply({b"b": b"0"}, Durability.PROCESS_CRASH)
[log] = Path(sys.argv[1]).glob("*.log")
cut = log.read_bytes()[:-3]
engine.ingest([(b"b", b"2")])
engine.apply({b"c": b"3"}, Durability.PROCESS_CRASH)
log.write_bytes(cut)
os.kill(os.getpid(), 9)
"""

_CRASH_INGESTING = """
import os, sys
from statestores.spi import Durability
from statestores_rocksdb import RocksDBEngine

engine = RocksDBEngine.open(sys.argv[1], {"write_buffer_bytes": 1 << 16})
engine.ingest([(b"a", b""), (b"z", b"")])
for number in range(1, int(sys.argv[2]) + 1):
    batch = {b"%d" % number: os.urandom(3_000), b"last": b"%d" % number}
    engine.apply(batch, Durability.PROCESS_CRASH)
    engine.ingest([(b"a", b"%d" % number)])
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database whose writer was killed, with all commits in three logs."""
    path = tmp_path_factory.mktemp("crashed") / "db"
    child = subprocess.run([sys.executable, "-c", _CRASH, str(path), str(COMMITS)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert len(list(path.glob("*.log"))) == 3
    assert list(path.glob("*.sst")) == []
    return path


@pytest.fixture
def copy(crashed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crashed, tmp_path / "db"))


def _logs(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def _last_commit(path: Path, recovery: str = "refuse-damage") -> int:
    """Open the database and return its last commit, of which and before all must be there."""
    with RocksDBEngine.open(path, {"wal_recovery": recovery}) as engine:
        last = int(engine.get(b"last") or b"0")

        found = [key for key, _ in engine.scan(b"0", b"9")]
        assert found == [b"%04d" % number for number in range(1, last + 1)]
        return last


def _change(path: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def _record_heads(content: bytes) -> Iterator[int]:
    """Yield where each record of a log begins."""
    position = 0
    while position < len(content):
        left = 32_768 - position % 32_768
        if left < 7:
            position += left
            continue
        yield position
        position += 7 + int.from_bytes(content[position + 4 : position + 6], "little")


def _whole_batches(content: bytes) -> int:
    """Count the batches whose last record, or only one, is whole."""
    return sum(
        content[head + 6] in {1, 4}
        and head + 7 + int.from_bytes(content[head + 4 : head + 6], "little") <= len(content)
        for head in _record_heads(content)
        if head + 7 <= len(content)
    )


def test_a_crash_loses_nothing(copy: Path) -> None:
    """The operating system has every commit."""
    assert _last_commit(copy) == COMMITS


def test_a_torn_tail_is_cut(copy: Path) -> None:
    """A record that the crash cut short was never committed."""
    log = _logs(copy)[-1]
    _change(log, lambda content: content.__delitem__(slice(-500, None)))

    assert _last_commit(copy) == COMMITS - 1


def test_zeros_after_the_end_are_no_damage(copy: Path) -> None:
    """File systems give space before it is written."""
    _change(_logs(copy)[-1], lambda content: content.extend(bytes(5_000)))

    assert _last_commit(copy) == COMMITS


@pytest.mark.spec("ENG-36")
def test_zeros_from_a_checksum_on_are_no_damage(copy: Path) -> None:
    """They were called damage where they began within the header of a record.

    A power failure may leave zeros from any byte to the end of a file.
    """
    log = _logs(copy)[-1]
    whole = log.read_bytes()
    last = max(head for head in _record_heads(whole) if whole[head + 6] in {1, 2})  # full, first
    _change(log, lambda content: content.__setitem__(slice(last + 2, None), bytes(600)))

    assert _last_commit(copy) == COMMITS - 1


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("kept", ["mid-record", "whole records", "nothing"])
@pytest.mark.parametrize("which", [0, 1])
def test_an_older_log_that_was_cut_leaves_no_hole(copy: Path, which: int, kept: str) -> None:
    """RocksDB replays the newer logs behind a cut one: 300 commits with some missing between.

    It does so in every mode of recovery when the cut falls between two records. A power failure
    can cut an older log and spare a newer one, and then the state was never one.
    """
    logs = _logs(copy)
    heads = list(_record_heads(logs[which].read_bytes()))
    os.truncate(
        logs[which], {"mid-record": heads[80] + 9, "whole records": heads[80], "nothing": 0}[kept]
    )
    before = sum(_whole_batches(log.read_bytes()) for log in logs[: which + 1])

    with pytest.raises(StoreCorruptedError, match="damaged at its end: it is cut short"):
        RocksDBEngine.open(copy)
    assert _last_commit(copy, "cut-at-damage") == before


@pytest.mark.spec("ENG-14")
def test_a_log_that_is_missing_between_others_is_refused(copy: Path) -> None:
    """RocksDB replays the others in every mode of recovery."""
    logs = _logs(copy)
    before = _whole_batches(logs[0].read_bytes())
    logs[1].unlink()

    with pytest.raises(StoreCorruptedError, match="or a log after it is missing"):
        RocksDBEngine.open(copy)
    assert _last_commit(copy, "cut-at-damage") == before


def test_a_cut_log_that_is_not_needed_is_no_damage(tmp_path: Path) -> None:
    """A crash may come before RocksDB has deleted a log whose batches are in a table.

    A power failure may have cut it as well, and an ingestion taken sequence numbers behind it.
    """
    child = subprocess.run([sys.executable, "-c", _CRASH_WITH_OLD_LOG, str(tmp_path)], check=False)

    assert child.returncode == -signal.SIGKILL
    # The first batch of all is the one that the first opening writes.
    assert [_whole_batches(log.read_bytes()) for log in _logs(tmp_path)] == [2, 2]
    with RocksDBEngine.open(tmp_path) as engine:
        assert list(engine.scan(b"")) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


def test_ingestions_leave_no_gap_between_logs(tmp_path: Path) -> None:
    """They take sequence numbers, which must not look like batches that are missing."""
    child = subprocess.run(
        [sys.executable, "-c", _CRASH_INGESTING, str(tmp_path), str(COMMITS)], check=False
    )

    assert child.returncode == -signal.SIGKILL
    with RocksDBEngine.open(tmp_path) as engine:
        assert engine.get(b"last") == b"%d" % COMMITS


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("which", [0, 1, 2], ids=["first log", "second log", "newest log"])
def test_damage_in_a_log_is_refused(copy: Path, which: int) -> None:
    """RocksDB's default would open with the commits before it, and say nothing."""
    _change(_logs(copy)[which], lambda content: content.__setitem__(30_000, content[30_000] ^ 4))
    before = {path.name: path.read_bytes() for path in copy.glob("[0-9MC]*")}

    with pytest.raises(StoreCorruptedError, match="checksum mismatch"):
        RocksDBEngine.open(copy)

    assert {path.name: path.read_bytes() for path in copy.glob("[0-9MC]*")} == before


@pytest.mark.parametrize("which", [0, 1, 2], ids=["first log", "second log", "newest log"])
def test_damage_can_be_cut_away_on_request(copy: Path, which: int) -> None:
    """The operator chooses to lose what follows the damage, and gets a state that was."""
    logs = _logs(copy)
    before = sum(_whole_batches(log.read_bytes()) for log in logs[:which])
    _change(logs[which], lambda content: content.__setitem__(30_000, content[30_000] ^ 4))

    last = _last_commit(copy, "cut-at-damage")

    assert before < last <= before + 30
    assert _last_commit(copy) == last


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("recovery", ["refuse-damage", "cut-at-damage"])
def test_a_log_that_claims_to_be_recycled_does_not_hang(copy: Path, recovery: str) -> None:
    """RocksDB 9.8 never returns from opening when one bit of a record's type is flipped so."""
    log = _logs(copy)[0]
    heads = list(_record_heads(log.read_bytes()))
    damaged = heads[50] + 6
    _change(log, lambda content: content.__setitem__(damaged, content[damaged] | 8))

    if recovery == "refuse-damage":
        with pytest.raises(StoreCorruptedError, match=f"damaged at byte {heads[50]};"):
            RocksDBEngine.open(copy)
    else:
        assert 40 < _last_commit(copy, recovery) < 51


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("field", ["checksum", "length", "type", "payload"])
def test_any_flipped_bit_of_a_log_is_refused_or_cut(
    crashed: Path, tmp_path: Path, field: str
) -> None:
    """Refused by default; on request a commit before the damage, never one with a hole.

    A longer length in the last block is a torn tail to any reader, so the last block is left out.
    """
    chance = random.Random(f"{SEED}{field}")
    log = _logs(crashed)[1]
    content = log.read_bytes()
    heads = [head for head in _record_heads(content) if head < len(content) // 32_768 * 32_768]
    first, last = {"checksum": (0, 3), "length": (4, 5), "type": (6, 6), "payload": (7, 300)}[field]
    for turn in range(6):
        copy = Path(shutil.copytree(crashed, tmp_path / str(turn)))
        position = chance.choice(heads) + chance.randint(first, last)
        bit = 1 << chance.randrange(8)
        damaged = content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :]
        (copy / log.name).write_bytes(damaged)

        with pytest.raises(StoreCorruptedError):
            RocksDBEngine.open(copy)
        assert _last_commit(copy, "cut-at-damage") < COMMITS


def test_the_frames_of_a_log_are_understood(crashed: Path) -> None:
    """Whole logs, and logs cut anywhere, are no damage; foreign bytes behind them are."""
    log = _logs(crashed)[1]
    content = log.read_bytes()
    before = _whole_batches(_logs(crashed)[0].read_bytes())
    draft = log.parent.parent / "log"
    for length in [*range(1, 40), *range(32_750, 32_790), len(content) - 1, len(content)]:
        draft.write_bytes(content[:length])
        structure = read_structure(draft)
        whole = _whole_batches(content[:length])

        assert structure.damage is None
        # A batch of the child has two changes, and the first is number 1.
        assert structure.first_sequence == (2 * before + 1 if whole else None)
        assert structure.next_sequence == (2 * (before + whole) + 1 if whole else None)
    draft.write_bytes(content + b"foreign bytes that make no record")

    assert read_structure(draft).damage == len(content)


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize(
    ("pattern", "message"),
    [("CURRENT", "the file CURRENT"), ("*.log", r"every write-ahead log \(\*\.log\)")],
)
def test_missing_files_are_not_taken_for_a_new_database(
    copy: Path, pattern: str, message: str
) -> None:
    """RocksDB would start anew: an empty store where there was a full one."""
    _last_commit(copy)
    for path in copy.glob(pattern):
        path.unlink()
    before = sorted(path.name for path in copy.iterdir())

    with pytest.raises(StoreCorruptedError, match=message):
        RocksDBEngine.open(copy)

    assert sorted(path.name for path in copy.iterdir()) == before


def _close_with_two_tables(path: Path) -> Path:
    """Make a database with two tables, closed in order, and return its manifest."""
    for number in range(2):
        with RocksDBEngine.open(path) as engine:
            engine.apply({b"%d" % number: b"v"}, Durability.POWER_LOSS)
    return path / (path / "CURRENT").read_text().strip()


@pytest.mark.spec("ENG-14")
def test_a_manifest_that_was_cut_after_closing_is_refused(tmp_path: Path) -> None:
    """RocksDB takes it for an earlier state, and deletes the tables that it does not name."""
    manifest = _close_with_two_tables(tmp_path)
    content = manifest.read_bytes()
    tables = sorted(path.name for path in tmp_path.glob("*.sst"))
    for length in [*_record_heads(content), len(content) - 1]:
        manifest.write_bytes(content[:length])

        with pytest.raises(StoreCorruptedError, match="is not what it was when the database was"):
            RocksDBEngine.open(tmp_path)
    manifest.write_bytes(content)

    assert sorted(path.name for path in tmp_path.glob("*.sst")) == tables
    with RocksDBEngine.open(tmp_path) as engine:
        assert [key for key, _ in engine.scan(b"")] == [b"0", b"1"]


@pytest.mark.spec("ENG-14")
def test_a_manifest_with_flipped_bits_after_a_crash_is_refused(copy: Path) -> None:
    """There is no seal then; frames and RocksDB's checksums find it, and none hangs."""
    manifest = copy / (copy / "CURRENT").read_text().strip()
    content = manifest.read_bytes()
    chance = random.Random(SEED)
    last_head = max(_record_heads(content))
    for position in [*(head + 6 for head in _record_heads(content)), *range(20, last_head, 9)]:
        bit = 8 if position < last_head and chance.random() < 0.5 else 1
        damaged = bytearray(content)
        damaged[position] ^= bit
        manifest.write_bytes(damaged)

        with pytest.raises(StoreCorruptedError):
            RocksDBEngine.open(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"manifest": "MANIFEST-000001"}'])
def test_an_unreadable_or_foreign_seal_is_ignored(tmp_path: Path, content: bytes) -> None:
    """A power failure may leave it empty, a crash after the next opening leaves the old one."""
    _close_with_two_tables(tmp_path)
    (tmp_path / "CLOSED.json").write_bytes(content)

    with RocksDBEngine.open(tmp_path) as engine:
        assert engine.get(b"1") == b"v"
    assert (tmp_path / json.loads((tmp_path / "CLOSED.json").read_bytes())["manifest"]).exists()
