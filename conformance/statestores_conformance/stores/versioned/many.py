"""A key that changes all the time: more versions of it than two bytes count."""

from itertools import islice

import pytest

from statestores.spi import ReadOnlyVersionedStore
from statestores_conformance.intensity import trials
from statestores_conformance.subjects.stores import VersionedStores
from statestores_conformance.subjects.versioned_fixtures import Record, Store

_VERSIONS = trials((1 << 16) + 40)
"""More than two bytes count, but for short runs: a second of the processor is much of these."""
_MIDDLE = _VERSIONS // 2
_EDGES = (0, 1, *(time_ms for time_ms in ((1 << 16) - 1, 1 << 16) if time_ms < _VERSIONS - 1))
_RETENTION_MS = 1 << 40
_LAST = _VERSIONS - 1


def _record(time_ms: int, end_ms: int | None) -> Record:
    return Record(b"%d" % time_ms, time_ms, end_ms)


def _write(store: Store, versions: int) -> None:
    """Commit so many versions of the key k, one each millisecond, between two keys of one."""
    times = list(range(versions))
    store.put_many([b"k"] * versions, [b"%d" % time_ms for time_ms in times], times)
    store.put_many([b"j", b"l"], [b"0", b"0"], [0, 0])
    store.commit({})


class VersionedManyTests:
    """Each of them is found, by every form of read."""

    @pytest.mark.spec("VRS-8", "VRS-9", "VRS-10", "SRV-10", "COM-18", "COM-20", "ROF-8")
    def test_a_key_has_any_number_of_versions(self, versioned_stores: VersionedStores) -> None:
        """As of times at both ends, in histories from both ends, and in those of all keys."""
        store = versioned_stores.open(history_retention_ms=_RETENTION_MS).store
        _write(store, _VERSIONS)
        found = [record.valid_from_ms for record in store.history(b"k")]
        content = store.committed_changes()
        exported = [time_ms for changes in content for time_ms in changes.times_ms or ()]

        assert found == list(range(_VERSIONS))
        assert sorted(exported) == [0, 0, *found]
        readers: list[ReadOnlyVersionedStore[bytes, bytes]] = [store, store.read_only()]
        for reader in readers:
            _check_both_ends(reader)
        store.put(b"k", None, _MIDDLE)
        store.put(b"k", None, _LAST + 1)
        store.commit({})

        assert store.get(b"k") is None
        assert list(store.history(b"k", _LAST)) == [_record(_LAST, _LAST + 1)]
        assert [r.valid_from_ms for r in store.history(b"k", _MIDDLE - 1, _MIDDLE + 1)] == [
            _MIDDLE - 1,
            _MIDDLE + 1,
        ]
        store.truncate()
        store.commit({})

        assert list(store.range_history()) == []


def _check_both_ends(reader: ReadOnlyVersionedStore[bytes, bytes]) -> None:
    for time_ms in (*_EDGES, _LAST - 1):
        assert reader.get(b"k", time_ms) == _record(time_ms, time_ms + 1)
    last = _record(_LAST, None)
    before = _record(_LAST - 1, _LAST)
    assert reader.get(b"k") == reader.get(b"k", _LAST) == last
    assert list(reader.history(b"k", _LAST - 1)) == [before, last]
    assert list(reader.history(b"k", 0, 1)) == [_record(0, 1), _record(1, 2)]
    assert list(islice(reader.history(b"k", reverse=True), 2)) == [last, before]
    beside = [(key, Record(b"0", 0, None)) for key in (b"j", b"l")]
    assert list(reader.range_history(None, None, _LAST - 1)) == [
        beside[0],
        (b"k", before),
        (b"k", last),
        beside[1],
    ]
    backwards = islice(reader.range_history(None, None, _LAST - 30, reverse=True), 2)
    assert list(backwards) == [beside[1], (b"k", last)]
    assert list(reader.scan_as_of(_LAST - 1)) == [
        beside[0],
        (b"k", before),
        beside[1],
    ]
