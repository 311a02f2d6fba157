"""The options of the RocksDB backend: read, bounded, and in force at each opening."""

import random
from pathlib import Path

import pytest

from statestores.errors import InvalidOptionError
from statestores.spi import Durability, parse_options

pytest.importorskip("rocksdict", reason="the driver of the rocksdb backend is not installed")

# Behind the skip, since it imports the driver.
from statestores_rocksdb import (
    Compression,
    RocksDBEngine,
    RocksDBOptions,
    WalRecovery,
    database,
)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _stored(path: Path, name: str) -> set[str]:
    """Return the values of the option *name* in the newest file of options that RocksDB wrote."""
    newest = max(path.glob("OPTIONS-*"))
    lines = (line.strip().partition("=") for line in newest.read_text().splitlines())
    return {value for key, _, value in lines if key == name}


@pytest.mark.spec("ENG-13")
def test_options_are_read_from_text() -> None:
    """As they arrive from Spark: names in any case, values as text."""
    parsed = parse_options(
        RocksDBOptions,
        {
            "COMPRESSION": "none",
            "max_open_files": "none",
            "bloom_bits_per_key": "0",
            "wal_recovery": "cut-at-damage",
        },
    )

    assert parsed == RocksDBOptions(
        compression=Compression.NONE,
        max_open_files=None,
        bloom_bits_per_key=0,
        wal_recovery=WalRecovery.CUT_AT_DAMAGE,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": 1}, "unknown option 'cache'; known: block_bytes, block_cache_bytes"),
        ({"compression": "gzip"}, "'compression' must be one of 'lz4', 'zstd', 'none'"),
        ({"wal_recovery": "guess"}, "must be one of 'refuse-damage', 'cut-at-damage'"),
        ({"max_open_files": 3}, "'max_open_files' must be from 16 to 2147483647, got 3"),
        (
            {"write_buffer_bytes": "-1"},
            "must be from 65536 to 1099511627776, got -1",
        ),
        ({"max_background_jobs": 0}, "'max_background_jobs' must be from 1 to 256, got 0"),
        ({"block_cache_bytes": "64 MB"}, "'block_cache_bytes' must be a whole number"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.spec("ENG-13")
def test_a_wrong_option_creates_nothing(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    """The message names the option and what was expected; the directory is not even made."""
    with pytest.raises(InvalidOptionError, match=message):
        RocksDBEngine.open(tmp_path / "db", options)

    assert not (tmp_path / "db").exists()


def test_options_hold_at_each_opening(tmp_path: Path) -> None:
    """The driver would open an existing database with the options that it was created with."""
    RocksDBEngine.open(tmp_path, {"compression": "lz4", "write_buffer_bytes": 1 << 20}).close()
    RocksDBEngine.open(tmp_path, {"compression": "zstd", "write_buffer_bytes": 2 << 20}).close()

    assert _stored(tmp_path, "compression") == {"kZSTD"}
    assert _stored(tmp_path, "write_buffer_size") == {str(2 << 20)}


def test_what_carries_a_promise_is_no_option(tmp_path: Path) -> None:
    """Checks are on, and log files are never reused."""
    RocksDBEngine.open(tmp_path).close()

    assert _stored(tmp_path, "paranoid_checks") == {"true"}
    assert _stored(tmp_path, "recycle_log_file_num") == {"0"}


@pytest.mark.parametrize(
    ("bits", "ratio", "has_filter"), [(10, "0.020000", "true"), (0, "0.000000", "false")]
)
def test_recent_writes_have_a_filter_as_files_have(
    tmp_path: Path, bits: int, ratio: str, has_filter: str
) -> None:
    """A get of a row in a file searched the recent writes first, which took a third of it."""
    with RocksDBEngine.open(tmp_path, {"bloom_bits_per_key": bits}) as engine:
        engine.apply({b"kept": b"1", b"removed": b"2"}, Durability.PROCESS_CRASH)
        engine.apply({b"removed": None}, Durability.PROCESS_CRASH)

        found = [engine.get(key) for key in (b"kept", b"removed", b"never")]

    assert found == [b"1", None, None]
    assert _stored(tmp_path, "memtable_prefix_bloom_size_ratio") == {ratio}
    assert _stored(tmp_path, "memtable_whole_key_filtering") == {has_filter}


@pytest.mark.parametrize("compression", list(Compression), ids=lambda each: each.value)
def test_data_of_any_compression_is_read_under_another(
    tmp_path: Path, compression: Compression
) -> None:
    """A change of the option needs no rewriting."""
    with RocksDBEngine.open(tmp_path, {"compression": compression}) as engine:
        engine.apply({b"k": b"v" * 10_000}, Durability.PROCESS_CRASH)

    with RocksDBEngine.open(tmp_path, {"block_cache_bytes": 0, "max_open_files": 16}) as engine:
        assert engine.get(b"k") == b"v" * 10_000


def test_the_text_logs_do_not_grow_without_end(tmp_path: Path) -> None:
    """RocksDB writes kilobytes about each compaction: they once took as much as the store."""
    options = {"write_buffer_bytes": 64 * 1024}
    chance = random.Random(1)
    with RocksDBEngine.open(tmp_path, options) as engine:
        for number in range(600):
            row = {b"%d" % (number % 20): chance.randbytes(64 * 1024)}
            engine.apply(row, Durability.PROCESS_CRASH)
        logs = sorted(tmp_path.glob("LOG*"))

        assert len(logs) == 3, "too few compactions to show anything"
        assert sum(log.stat().st_size for log in logs) < 4 * database._TEXT_LOG_BYTES


def test_what_bounds_the_disk_goes_by_the_write_buffer(tmp_path: Path) -> None:
    """Compactions are small, and writers wait for them, in proportion to what a buffer holds."""
    RocksDBEngine.open(tmp_path, {"write_buffer_bytes": 1 << 20}).close()

    assert _stored(tmp_path, "max_compaction_bytes") == {str(4 << 20)}
    assert _stored(tmp_path, "max_bytes_for_level_base") == {str(4 << 20)}
    assert _stored(tmp_path, "target_file_size_base") == {str(1 << 20)}
    assert _stored(tmp_path, "level0_slowdown_writes_trigger") == {"6"}
    assert _stored(tmp_path, "max_log_file_size") == {str(256 << 10)}
    assert _stored(tmp_path, "max_manifest_file_size") == {str(1 << 20)}
    assert _stored(tmp_path, "soft_pending_compaction_bytes_limit") == {str(4 << 20)}
