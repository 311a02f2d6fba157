"""Reads of many rows: wherever an engine cuts a request into chunks, or a scan into pages.

An engine that errs at such an edge answers most questions rightly. So the keys that are there
follow no period, requests have the sizes around which drivers cut, and every edge of a page falls
between a key and its extension by a zero byte, which is the shortest step that a bound can take.
"""

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from statestores.spi import Durability, Engine, EngineReader
from statestores_conformance.intensity import seed
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.engines import EngineFixtures, Pairs

_MOST_KEYS = 5_001
SIZES_AROUND_EDGES = sorted(
    {
        edge + step
        for edge in (*(2**power for power in range(1, 13)), 10, 100, 500, 1_000, 5_000)
        for step in (-1, 0, 1)
    }
)
"""Around every power of two and of ten up to `_MOST_KEYS`."""

_MANY_SCANS = 130
"""More than some drivers have places for readers (LMDB: 126)."""

_STEMS = 500
_EXTENSIONS = 6
"""Keys of a stem: itself, and its extensions by zero bytes, so five of six edges are in between."""


def _chance(usual: int) -> random.Random:
    return random.Random(seed(usual))  # noqa: S311  # which cases to try


def _with_gaps(count: int) -> dict[bytes, bytes | None]:
    """Return *count* keys in order, two thirds of which have a value, in no period."""
    chance = _chance(17)
    keys = sorted(chance.sample(range(10 * count), count))
    return {b"%06d" % key: b"%d" % key if chance.random() < 2 / 3 else None for key in keys}


def _extended(stem: bytes) -> Iterator[bytes]:
    """Give *stem*, and what follows it immediately, again and again."""
    for length in range(_EXTENSIONS):
        yield stem + bytes(length)


def _stored(pairs: dict[bytes, bytes | None]) -> Pairs:
    return [(key, value) for key, value in pairs.items() if value is not None]


class EngineManyRowsTests(EngineFixtures):
    """Large requests and long scans, from the engine and from a snapshot of it."""

    @pytest.mark.spec("ENG-3", "ENG-9")
    def test_a_request_of_any_size_answers_every_key(self, engine: Engine) -> None:
        """Present and missing keys, some asked twice, in any order: one answer for each.

        And a snapshot's are all of its moment: each of the values has changed since.
        """
        content = _with_gaps(_MOST_KEYS)
        engine.apply(dict(_stored(content)), Durability.PROCESS_CRASH)
        chance = _chance(18)
        keys = list(content)
        requests = [
            [keys[chance.randrange(_MOST_KEYS)] for _ in range(size)] for size in SIZES_AROUND_EDGES
        ]
        requests += [keys, keys[::-1]]
        with engine.snapshot() as snapshot:
            changed = {key: b"later" if place % 3 else None for place, key in enumerate(keys)}
            engine.apply(dict(changed), Durability.PROCESS_CRASH)
            for request in requests:
                assert engine.get_many(request) == [changed[key] for key in request]
                assert snapshot.get_many(request) == [content[key] for key in request]

    @pytest.mark.spec("ENG-4", "ENG-6", "ENG-20")
    def test_no_page_ends_between_a_key_and_its_extension(self, engine: Engine) -> None:
        """Scans that begin and end anywhere among such keys give each of them once."""
        keys = [key for stem in range(_STEMS) for key in _extended(b"%04d" % stem)]
        _check_ranges(engine, keys, _chance(19))

    @pytest.mark.spec("ENG-4", "ENG-6", "ENG-20")
    def test_no_page_ends_within_a_run_of_the_highest_byte(self, engine: Engine) -> None:
        """The next prefix of a run of ``ff`` is shorter than it, and is not needed for a page."""
        runs = [b"\xff" * length for length in range(1, 300)]
        keys = sorted({key for run in runs for key in (run, run + b"\x00", run + b"\xfe")})
        _check_ranges(engine, keys, _chance(20))

    @pytest.mark.spec("ENG-5", "ENG-6")
    def test_a_range_begins_and_ends_between_any_two_keys(self, engine: Engine) -> None:
        """Also where an index in blocks has no entry: the next key is found from above each key.

        A bound that is no key itself lies between two blocks as often as within one.
        """
        pairs = _stored(_with_gaps(_MOST_KEYS))
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)
        bounds = [key + b"\x00" for key, _ in pairs]
        with engine.snapshot() as snapshot:
            engine.apply(dict.fromkeys(bounds[::500], b"later"), Durability.PROCESS_CRASH)
            engine.apply(dict.fromkeys(bounds[::500]), Durability.PROCESS_CRASH)
            for reader in (engine, snapshot):
                assert [reader.first(bound) for bound in bounds] == [*pairs[1:], None]
                assert [reader.last(b"", bound) for bound in bounds] == pairs
        for place in (size for size in SIZES_AROUND_EDGES if size < len(bounds)):
            assert list(islice(engine.scan(bounds[place - 1]), 2)) == pairs[place : place + 2]
            assert next(engine.scan(b"", bounds[place], reverse=True)) == pairs[place]

    @pytest.mark.spec("ENG-20", "ENG-9", "ENG-6")
    def test_a_long_scan_is_frozen_to_its_end(self, engine: Engine) -> None:
        """Whoever turns pages turns them in what there was at the call, also in two parts.

        One that was only called, one that was begun, and what is left of one that was read ahead.
        """
        pairs = _stored(_with_gaps(_MOST_KEYS))
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)
        with engine.snapshot() as snapshot:
            held = [
                (reverse, reader.scan_ahead(b"", None, limit, reverse=reverse))
                for reverse in (False, True)
                for reader, limit in ((engine, 1), (engine, _EXTENSIONS), (snapshot, _EXTENSIONS))
            ]
            held += [
                (reverse, ([next(scan)] if is_begun else [], scan))
                for reverse in (False, True)
                for is_begun in (False, True)
                for scan in (engine.scan(b"", reverse=reverse),)
            ]
            added = {key + b"\x00": b"later" for key, _ in pairs}
            changed = {key: b"later" if place % 3 else None for place, (key, _) in enumerate(pairs)}
            engine.apply(added | changed, Durability.PROCESS_CRASH)
            for reverse, (ahead, others) in held:
                assert [*ahead, *(others or ())] == (pairs[::-1] if reverse else pairs)

    @pytest.mark.spec("ENG-6", "ENG-20")
    def test_many_scans_are_open_together(self, engine: Engine) -> None:
        """None of them ends for another one's sake, as if the data were over."""
        pairs = [(b"%02d" % number, b"v") for number in range(50)]
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)
        scans = [engine.scan(b"") for _ in range(_MANY_SCANS)]
        begun = [next(scan) for scan in scans]
        engine.apply(dict.fromkeys(key for key, _ in pairs[1::2]), Durability.PROCESS_CRASH)

        assert begun == pairs[:1] * _MANY_SCANS
        assert [list(scan) for scan in scans] == [pairs[1:]] * _MANY_SCANS

    @pytest.mark.spec("ENG-9", "ENG-5", "ENG-6", "ENG-21")
    def test_a_snapshot_answers_every_range(self, engine: Engine) -> None:
        """Between any two adversarial keys, after the engine has moved on, as at its moment."""
        keys = adversarial_keys.SHORT_KEYS
        stored = [(key, key + b"=") for key in keys[::2]]
        engine.apply(dict(stored), Durability.PROCESS_CRASH)
        with engine.snapshot() as snapshot:
            engine.apply(dict.fromkeys(keys[::4]), Durability.PROCESS_CRASH)
            engine.apply(dict.fromkeys(keys[1::2], b"later"), Durability.PROCESS_CRASH)
            for start in keys:
                for stop in (*keys, None):
                    expected = [
                        pair
                        for pair in stored
                        if start <= pair[0] and (stop is None or pair[0] < stop)
                    ]

                    assert list(snapshot.scan(start, stop)) == expected
                    assert list(snapshot.scan(start, stop, reverse=True)) == expected[::-1]
                    assert snapshot.first(start, stop) == (expected[0] if expected else None)
                    assert snapshot.last(start, stop) == (expected[-1] if expected else None)


def _check_ranges(engine: Engine, keys: list[bytes], chance: random.Random) -> None:
    """Store *keys*, and compare ranges of them, which begin at shifted places, with the list."""
    pairs = [(key, b"%d" % number) for number, key in enumerate(keys)]
    engine.apply(dict(pairs), Durability.PROCESS_CRASH)
    with engine.snapshot() as snapshot:
        engine.apply(dict.fromkeys(keys[:1]), Durability.PROCESS_CRASH)
        engine.apply(dict(pairs[:1]), Durability.PROCESS_CRASH)
        for reader in (engine, snapshot):
            for shift in range(_EXTENSIONS):
                _check_range(reader, pairs, shift, len(pairs))
                _check_range(reader, pairs, 0, len(pairs) - shift)
            for _ in range(20):
                first = chance.randrange(len(pairs))
                _check_range(reader, pairs, first, chance.randrange(first, len(pairs)))


def _check_range(reader: EngineReader, pairs: Pairs, first: int, end: int) -> None:
    """Compare every read of the range from pair *first* up to pair *end* with *pairs*."""
    start, stop = pairs[first][0], pairs[end][0] if end < len(pairs) else None
    expected = pairs[first:end]

    assert list(reader.scan(start, stop)) == expected
    assert list(reader.scan(start, stop, reverse=True)) == expected[::-1]
    assert reader.first(start, stop) == (expected[0] if expected else None)
    assert reader.last(start, stop) == (expected[-1] if expected else None)
    # In two parts, one of which may be empty; each range with one of these limits.
    limit = max(1, (1, _EXTENSIONS, len(expected), len(expected) + 1)[first % 4])
    for reverse in (False, True):
        pairs_ahead, others = reader.scan_ahead(start, stop, limit, reverse=reverse)
        found = [*pairs_ahead, *(others or ())]

        assert found == (expected[::-1] if reverse else expected)
        assert len(pairs_ahead) == min(limit, len(expected))
        assert (others is None) == (len(expected) < limit)
