"""Rows of versions, as commits make them, beside a model.

Whole stores are held against one in `test_pending_versions.py`. Here it says of each commit which
rows it writes, what it reads for them, and from when on the vacuum has work.
"""

import pytest
from version_cases import cases, rows_of

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.semantics.versioned.commit import resolve
from statestores.semantics.versioned.rows import (
    data_key,
    key_of,
    read_history,
)
from statestores.spi.durability import Durability


@pytest.mark.spec("VRS-1", "VRS-8", "VRS-14", "LAY-7")
def test_a_commit_writes_the_rows_of_its_versions_and_no_others() -> None:
    """Of what has not expired, each row is as it would be had all been put at once.

    What has expired at the commit is written only where it was put late, and a row of it that stays
    is right. No row of a marker stays whose deletion is superseded: the vacuum would take it for
    one. Mutants that wrote expired rows, or kept such markers, lived.
    """
    for case in cases():
        stored = dict(case.engine.scan(b""))
        resolved = resolve(case.engine, case.cached, case.waiting, Progress(), case.horizon_ms)
        case.engine.apply(resolved.rows, Durability.PROCESS_CRASH)
        rows = dict(case.engine.scan(b""))

        wanted: dict[bytes, bytes] = {}
        for key, versions in case.merged.items():
            wanted |= rows_of(key, versions)
        assert rows.items() <= wanted.items()
        for row in wanted.keys() - rows.keys():
            assert row >= HISTORY
            end = read_history(row, wanted[row]).valid_to_ms
            assert end is not None
            assert end <= case.horizon_ms
            assert end != read_history(row, wanted[row]).valid_from_ms
        for row, value in resolved.rows.items():
            if row >= HISTORY and value is not None and row not in stored:
                start, _, end = read_history(row, value)
                is_late = start < case.newest(key_of(row))
                assert is_late or end == start or (end is not None and end > case.horizon_ms)
        assert resolved.latest == {
            key: (max(case.merged[key]), case.merged[key][max(case.merged[key])])
            for key, versions in case.pending.items()
            if max(versions) >= case.newest(key)
        }


@pytest.mark.spec("VRS-14")
def test_the_vacuum_has_work_from_the_lowest_end_that_was_written() -> None:
    """Later, and rows that have expired stay; earlier, and each commit walks for nothing."""
    for case in cases():
        progress = Progress(pass_floor_ms=7)
        resolved = resolve(case.engine, case.cached, case.waiting, progress, case.horizon_ms)
        ends = [
            read_history(row, value).valid_to_ms
            for row, value in resolved.rows.items()
            if row >= HISTORY and value is not None
        ]

        lowest = min((end for end in ends if end is not None), default=MAX_TIME_MS)
        assert (progress.floor_ms, progress.pass_floor_ms) == (lowest, min(lowest, 7))


def test_a_commit_reads_latest_rows_that_it_does_not_have_and_seeks_for_late_puts_alone() -> None:
    """One read for all keys that are not cached, and none if there are none."""
    for case in cases():
        resolve(case.engine, case.cached, case.waiting, Progress(), case.horizon_ms)
        late = [
            start
            for key, versions in case.pending.items()
            for start in versions
            if start < case.newest(key)
        ]

        unknown = sorted(case.pending.keys() - case.cached.keys())
        assert list(case.engine.asked) == [data_key(key) for key in unknown]
        assert bool(case.engine.seeks) == bool(late)
