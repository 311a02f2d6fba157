"""Windows of one start that many commits bring, as those who keep committed windows meet them."""

from collections.abc import Callable

import pytest

from statestores_conformance.subjects.retained_stores import WindowStores
from statestores_conformance.subjects.window_fixtures import Store, record

_KEYS = [b"", b"\x00", *(b"%02d" % number for number in range(38))]
"""So many that they are worth keeping by their start."""

_STARTS = (1_000, 1_100, 1_105, 1_190)
"""All are visible as long as nothing has come after 1,999."""

Windows = dict[tuple[bytes, int], bytes]
"""What a store must show: values by key and start."""


class WindowCommitTests:
    """What is read of committed windows, whatever commits have changed of them."""

    @pytest.mark.spec("WIN-9", "WIN-10", "WIN-16", "WIN-24", "COM-7", "COM-18")
    def test_each_commit_shows(self, window_stores: WindowStores) -> None:
        """Commits of a few windows and of many, of one start and of more, replacing and deleting.

        Who keeps windows of the last commits has to bring up each that another commit changes, by
        whichever way it came, and may not take what is kept for all there is. Ranges are read after
        the commits alone: who looks for pending windows that way may order them first.
        """
        for number, (life, changes) in enumerate(_LIVES.items()):
            store = window_stores.open(f"life{number}").store
            shown: Windows = {}
            for step, (change, is_kept) in enumerate(changes):
                before = dict(shown)
                change(store, shown, b"%d" % step)
                assert _fetched(store) == _expected(shown)[:_FETCHES], f"{life}: {step}, pending"
                if is_kept:
                    store.commit({})
                else:
                    store.rollback()
                    shown = before

                assert _read(store) == _expected(shown), f"{life}: {step}"


def _put(
    *starts: int, keys: list[bytes] = _KEYS, deletes: bool = False
) -> Callable[[Store, Windows, bytes], None]:
    """Return a change that puts windows, or deletes them."""

    def change(store: Store, shown: Windows, value: bytes) -> None:
        for start_ms in starts:
            for key in keys:
                assert store.put(key, None if deletes else value, start_ms)
                shown.pop((key, start_ms), None)
                if not deletes:
                    shown[key, start_ms] = value

    return change


def _put_columns(store: Store, shown: Windows, value: bytes) -> None:
    """Put all windows of a start at once."""
    start_ms = _STARTS[1]
    assert store.put_many(_KEYS, [value] * len(_KEYS), [start_ms] * len(_KEYS)) == len(_KEYS)
    shown |= dict.fromkeys(((key, start_ms) for key in _KEYS), value)


def _put_more_of_one(store: Store, shown: Windows, value: bytes) -> None:
    """Put windows of two starts, of which one has a key that it had not."""
    _put(_STARTS[1])(store, shown, value)
    _put(_STARTS[2], keys=[*_KEYS, b"another"])(store, shown, value)


def _put_between(store: Store, shown: Windows, value: bytes) -> None:
    """Put windows that a read of all of them finds before they are committed."""
    _put(_STARTS[3], keys=_KEYS[:30])(store, shown, value)
    assert len(list(store.fetch_all())) == len(shown)


def _empty(store: Store, shown: Windows, value: bytes) -> None:
    """Truncate the store, and put a few windows."""
    store.truncate()
    shown.clear()
    _put(_STARTS[1], keys=_KEYS[:2])(store, shown, value)


_Change = tuple[Callable[[Store, Windows, bytes], None], bool]

_BEGUN: list[_Change] = [(_put(_STARTS[0]), True), (_put(_STARTS[1], _STARTS[2]), True)]

_LIVES: dict[str, list[_Change]] = {
    "one window more": [*_BEGUN, (_put_more_of_one, True), (_put(_STARTS[1]), True)],
    "few and many": [
        *_BEGUN,
        (_put(_STARTS[1], keys=_KEYS[:3]), True),
        (_put(_STARTS[1]), True),
        (_put(_STARTS[1], keys=_KEYS[1:3], deletes=True), True),
        (_put_columns, True),
        (_put(_STARTS[0], keys=_KEYS[3:]), True),
        (_put(_STARTS[3], keys=_KEYS[5:]), True),
        (_empty, True),
        (_put(_STARTS[1], _STARTS[3]), True),
    ],
    "by every read": [
        *_BEGUN,
        (_put(_STARTS[3], keys=_KEYS[5:]), True),
        (_put_between, True),
        (_put(_STARTS[3]), True),
        (_put(_STARTS[3], keys=_KEYS[2:4]), True),
        (_put(_STARTS[3], keys=_KEYS[4:], deletes=True), True),
        (_empty, True),
        (_put(_STARTS[3], keys=_KEYS[:1]), True),
    ],
    "taken back": [
        *_BEGUN,
        (_put(_STARTS[1], keys=_KEYS[4:]), False),
        (_put(_STARTS[3]), True),
        (_put(_STARTS[1], _STARTS[3], keys=_KEYS[4:], deletes=True), False),
        (_put(_STARTS[1], _STARTS[3], keys=_KEYS[4:], deletes=True), True),
        (_put(*_STARTS), True),
    ],
}
"""What is written, one after the other, and whether it is committed or rolled back."""


_FETCHES = 2 * len(_STARTS)
"""How many of the reads ask for no range."""


def _fetched(store: Store) -> list[object]:
    """Read all windows, one by one, and many at once."""
    keys = [*_KEYS, b"another"]
    found: list[object] = [[store.fetch(key, start_ms) for key in keys] for start_ms in _STARTS]
    return found + [store.fetch_many(keys, [start_ms] * len(keys)) for start_ms in _STARTS]


def _read(store: Store) -> list[object]:
    """Read all windows in each way."""
    keys = [*_KEYS, b"another"]
    found = _fetched(store)
    for first_ms in (None, _STARTS[1], _STARTS[3]):
        found += [list(store.fetch_range(key, first_ms, 1_500)) for key in keys]
    found += [list(store.fetch_range(key, _STARTS[1], reverse=True)) for key in keys[-2:]]
    return found


def _expected(shown: Windows) -> list[object]:
    """Return what `_read` must give."""
    keys = [*_KEYS, b"another"]
    found: list[object] = [[shown.get((key, start_ms)) for key in keys] for start_ms in _STARTS]
    found += found[:]
    records = {
        key: [
            record(key, start_ms, shown[key, start_ms])
            for start_ms in _STARTS
            if (key, start_ms) in shown
        ]
        for key in keys
    }
    for first_ms in (0, _STARTS[1], _STARTS[3]):
        found += [[each for each in records[key] if each.start_ms >= first_ms] for key in keys]
    found += [
        [each for each in reversed(records[key]) if each.start_ms >= _STARTS[1]]
        for key in keys[-2:]
    ]
    return found
