"""A verification looks into stores whose values expire."""

import shutil
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import StoreMismatchError
from statestores.logged_store import open_logged_store
from statestores.semantics import open_on_engine
from statestores.spi import Durability
from statestores.verification import verify
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.subjects.faulty_engine import KeptOpen
from statestores_memory import MemoryEngine


@pytest.mark.spec("TKV-7", "TTL-10")
def test_a_store_with_expired_rows_verifies(tmp_path: Path) -> None:
    """Engine, snapshot and changelog agree on what is there, rows not deleted yet left out."""
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.TimestampedKeyValue("seen", ttl_ms=100), partitions=1)
    with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
        for number in range(500):
            seen.store.put(b"%d" % number, b"v", number)
            if number % 50 == 49:
                seen.commit({ss.TopicPartition("clicks", 0): number})
            if number == 300:
                seen.snapshot()
        seen.store.put(b"last", b"v", 10_000)
        seen.commit()
        expired = seen.store.approximate_num_entries() - len(list(seen.store.range()))
    findings = list(verify(tmp_path))

    assert expired > 0
    assert [finding for finding in findings if finding.is_failure] == []
    assert {"changelog", "snapshot", "rows", "content"} <= {finding.check for finding in findings}


@pytest.mark.spec("TTL-9", "TTL-11")
@pytest.mark.parametrize("ttl_ms", [5, 30, 1_000, None])
@pytest.mark.parametrize("place", ["directory", "memory://verified-ttl/{}"])
def test_another_time_to_live_is_no_damage(tmp_path: Path, place: str, ttl_ms: int | None) -> None:
    """A whole root was said to be damaged once the time to live of a store was another one.

    Its snapshots were those "of another store"; and what one had left out, as expired, was missing
    in it by the changelog, where it had not expired any more. Nor was what it had and should not.
    """
    in_objects = place != "directory"
    url = place.format(ttl_ms) if in_objects else str(tmp_path / "root")
    root = ss.StateRoot.create(url)
    local = tmp_path / "local" if in_objects else None
    root.add_store(ss.TimestampedKeyValue("seen", ttl_ms=20), partitions=1)
    with open_logged_store(root, "seen", 0, backend="sqlite", directory=local) as seen:
        for key, time_ms in ((b"old", 0), (b"between", 85), (b"new", 90), (b"last", 100)):
            seen.store.put(key, b"v", time_ms)
            seen.commit()
        seen.snapshot()
        seen.store.put(b"later", b"v", 101)
        seen.commit()
    root.add_store(ss.TimestampedKeyValue("seen", ttl_ms=ttl_ms), partitions=1)
    for _ in range(2):
        findings = list(verify(url))
        assert [finding for finding in findings if finding.is_failure] == []
        assert {"snapshot", "content"} <= {finding.check for finding in findings}
        with open_logged_store(root, "seen", 0, backend="sqlite", directory=local) as seen:
            assert seen.store.get(b"last") is not None
            seen.snapshot()


@pytest.mark.spec("SNP-3", "TKV-7")
@pytest.mark.parametrize("clock", list(ss.TtlClock))
def test_rows_of_stores_without_a_time_to_live_are_compared(
    tmp_path: Path, clock: ss.TtlClock
) -> None:
    """A snapshot with another value than the changelog gives verified, of any timestamped store.

    The stored form of no time to live is 0, and that was read as one: up to stream time, where all
    rows are, everything had expired and was left out. For the same reason a snapshot of other
    content at the same offset was taken for the same.
    """
    specification = ss.TimestampedKeyValue("seen", ttl_clock=clock)
    roots = [ss.StateRoot.create(tmp_path / name) for name in ("one", "two")]
    for root, value in zip(roots, (b"right", b"wrong"), strict=True):
        root.add_store(specification, partitions=1)
        with open_logged_store(root, "seen", 0, backend="sqlite") as seen:
            seen.store.put(b"key", value, 5)
            seen.store.put(b"last", b"v", 5)
            seen.commit()
            seen.snapshot()
    one, two = (root.partition("seen", 0).snapshots for root in roots)
    assert [finding for finding in verify(tmp_path / "one") if finding.is_failure] == []
    shutil.rmtree(one)
    shutil.copytree(two, one)

    failures = [finding for finding in verify(tmp_path / "one") if finding.is_failure]

    assert [finding.check for finding in failures] == ["content"]
    assert "'wrong'" in failures[0].detail
    assert "'right'" in failures[0].detail
    with (
        open_logged_store(roots[0], "seen", 0) as seen,
        pytest.raises(StoreMismatchError, match="other content at the same offset"),
    ):
        seen.snapshot()


@pytest.mark.spec("TKV-7")
def test_a_row_without_a_header_is_a_problem() -> None:
    """It is named, and rows with one are not."""
    engine = MemoryEngine.open("unused")
    with open_on_engine(KeptOpen(engine), ss.TimestampedKeyValue("seen", ttl_ms=100)) as store:
        store.put(b"good", b"", 1)
        store.commit({})
    healthy = examine_rows(engine)
    engine.apply({b"\x02bad": b"1234567"}, Durability.PROCESS_CRASH)
    damaged = examine_rows(engine)

    assert healthy is not None
    assert damaged is not None
    assert healthy.problems == []
    assert damaged.problems == ["the row b'\\x02bad' is too short for a timestamp (TKV-7)"]
