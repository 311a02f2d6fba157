"""Reading an engine: get, get_many, first, last and scan."""

from collections.abc import Iterable

import pytest

from statestores.spi import Durability, Engine
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.engines import EngineFixtures, Engines, Pairs, pairs_of

_MANY = 25_000
"""More keys than an engine counts one by one."""
_ABC: Pairs = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


def _check_plain(call: str, found: Iterable[object]) -> None:
    """Fail with a sentence unless everything that *call* returned is bytes, and no look-alike."""
    for item in found:
        if type(item) is not bytes:
            pytest.fail(f"{call}() returned a {type(item).__name__}, expected bytes", pytrace=False)


class EngineOfThreePairs(EngineFixtures):
    """The engine that most tests of reading start with."""

    @pytest.fixture
    def abc(self, engine: Engine) -> Engine:
        """Give an engine that holds a, b and c."""
        engine.apply(dict(_ABC), Durability.PROCESS_CRASH)
        return engine


class EnginePointReadTests(EngineOfThreePairs):
    """Reads by `get` and `get_many`."""

    @pytest.mark.spec("ENG-2")
    def test_a_missing_key_is_none(self, engine: Engine) -> None:
        """A key that was never written has no value."""
        assert engine.get(b"k") is None

    @pytest.mark.spec("ENG-2")
    @for_each("value", adversarial_keys.VALUES)
    def test_a_value_comes_back_as_it_was_put(self, engine: Engine, value: bytes) -> None:
        """Every sequence of bytes is a value, the empty one included."""
        engine.apply({b"k": value}, Durability.PROCESS_CRASH)

        assert engine.get(b"k") == value

    @pytest.mark.spec("ENG-2")
    def test_the_empty_value_differs_from_absence(self, engine: Engine) -> None:
        """``b""`` is found by every kind of read."""
        engine.apply({b"k": b""}, Durability.PROCESS_CRASH)

        assert engine.get_many([b"k"]) == [b""]
        assert engine.first(b"k") == (b"k", b"")
        assert pairs_of(engine) == [(b"k", b"")]

    @pytest.mark.spec("ENG-2")
    def test_values_are_plain_bytes(self, engine: Engine) -> None:
        """No driver type comes out, from any kind of read."""
        engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
        with engine.snapshot() as snapshot:
            for reader in (engine, snapshot):
                _check_plain("get", [reader.get(b"k")])
                _check_plain("get_many", reader.get_many([b"k"]))
                _check_plain("first", reader.first(b"") or ())
                _check_plain("last", reader.last(b"") or ())
                _check_plain("scan", next(reader.scan(b"")))
                _check_plain("scan", next(reader.scan(b"", reverse=True)))

    @pytest.mark.spec("ENG-2")
    def test_a_neighbour_of_a_key_is_not_the_key(self, engine: Engine) -> None:
        """A prefix, an extension and a successor of a stored key are absent."""
        engine.apply({b"key": b"v"}, Durability.PROCESS_CRASH)

        assert engine.get_many([b"ke", b"key\x00", b"kez"]) == [None, None, None]

    @pytest.mark.spec("ENG-3")
    def test_get_many_keeps_the_order_of_its_keys(self, abc: Engine) -> None:
        """The values come in the order in which they were asked for, not in key order."""
        assert abc.get_many([b"c", b"a", b"b"]) == [b"3", b"1", b"2"]

    @pytest.mark.spec("ENG-3")
    def test_get_many_marks_missing_keys(self, abc: Engine) -> None:
        """A missing key gives ``None`` in its place, not a shorter list."""
        assert abc.get_many([b"x", b"b", b"y"]) == [None, b"2", None]

    @pytest.mark.spec("ENG-3")
    def test_get_many_answers_a_repeated_key_each_time(self, abc: Engine) -> None:
        """A key may be asked for more than once."""
        assert abc.get_many([b"a", b"x", b"a", b"x"]) == [b"1", None, b"1", None]

    @pytest.mark.spec("ENG-3")
    def test_get_many_of_nothing_is_nothing(self, abc: Engine) -> None:
        """No keys, no values."""
        assert abc.get_many([]) == []

    @pytest.mark.spec("ENG-3")
    def test_get_many_takes_thousands_of_keys(self, engine: Engine) -> None:
        """The number of keys is not limited by a driver's number of parameters."""
        pairs = {b"%06d" % number: b"%d" % number for number in range(0, 40_000, 2)}
        engine.apply(pairs, Durability.PROCESS_CRASH)
        keys = [b"%06d" % number for number in range(40_000)]

        assert engine.get_many(keys) == [pairs.get(key) for key in keys]


class EngineOrderTests(EngineFixtures):
    """The order of keys."""

    @pytest.mark.spec("ENG-4", "ENG-6")
    def test_keys_are_in_unsigned_byte_order(self, engine: Engine) -> None:
        """Bytes compare unsigned, and a strict prefix sorts before what continues it."""
        engine.apply(
            {key: b"%d" % number for number, key in enumerate(adversarial_keys.KEYS)},
            Durability.PROCESS_CRASH,
        )

        assert [key for key, _ in engine.scan(b"")] == adversarial_keys.KEYS

    @pytest.mark.spec("ENG-4", "ENG-25")
    def test_adversarial_keys_are_distinct(self, engine: Engine) -> None:
        """No two different keys share a value, however alike they look to an encoding."""
        pairs = {key: b"%d" % number for number, key in enumerate(adversarial_keys.KEYS)}
        engine.apply(pairs, Durability.PROCESS_CRASH)

        assert engine.get_many(adversarial_keys.KEYS) == list(pairs.values())

    @pytest.mark.spec("ENG-4", "ENG-7")
    def test_each_adversarial_key_is_deleted_alone(self, engine: Engine) -> None:
        """Deleting every second key leaves exactly the others."""
        keys = adversarial_keys.KEYS
        engine.apply(dict.fromkeys(keys, b"v"), Durability.PROCESS_CRASH)
        engine.apply(dict.fromkeys(keys[::2]), Durability.PROCESS_CRASH)

        assert [key for key, _ in engine.scan(b"")] == keys[1::2]

    @pytest.mark.spec("ENG-4")
    def test_order_does_not_depend_on_the_order_of_writing(self, engine: Engine) -> None:
        """Keys written from the highest down, one batch each, still come out ascending."""
        for key in reversed(adversarial_keys.SHORT_KEYS):
            engine.apply({key: key}, Durability.PROCESS_CRASH)

        assert [key for key, _ in engine.scan(b"")] == adversarial_keys.SHORT_KEYS


class EngineSeekTests(EngineOfThreePairs):
    """First and last."""

    @pytest.mark.spec("ENG-5")
    @for_each(
        ("start", "stop", "expected"),
        [
            (b"", None, (b"a", b"1")),
            (b"a", None, (b"a", b"1")),
            (b"a\x00", None, (b"b", b"2")),
            (b"aa", b"c", (b"b", b"2")),
            (b"c", b"d", (b"c", b"3")),
            (b"d", None, None),
            (b"aa", b"b", None),
        ],
    )
    def test_first_is_the_lowest_pair_of_the_range(
        self, abc: Engine, start: bytes, stop: bytes | None, expected: tuple[bytes, bytes] | None
    ) -> None:
        """*start* is included, *stop* is not, ``None`` is no bound, an inverted range is empty."""
        assert abc.first(start, stop) == expected

    @pytest.mark.spec("ENG-5")
    @for_each(
        ("start", "stop", "expected"),
        [
            (b"", None, (b"c", b"3")),
            (b"c", None, (b"c", b"3")),
            (b"", b"c", (b"b", b"2")),
            (b"", b"c\x00", (b"c", b"3")),
            (b"b", b"c", (b"b", b"2")),
            (b"", b"a", None),
            (b"c\x00", None, None),
            (b"aa", b"b", None),
        ],
    )
    def test_last_is_the_highest_pair_of_the_range(
        self, abc: Engine, start: bytes, stop: bytes | None, expected: tuple[bytes, bytes] | None
    ) -> None:
        """*start* is included, *stop* is not, ``None`` is no bound, an inverted range is empty."""
        assert abc.last(start, stop) == expected

    @pytest.mark.spec("ENG-5")
    def test_first_and_last_agree_with_a_scan_everywhere(self, engine: Engine) -> None:
        """Between any two adversarial keys, both give the ends of the scan."""
        keys = adversarial_keys.SHORT_KEYS
        engine.apply({key: key for key in keys[::2]}, Durability.PROCESS_CRASH)
        for start in keys:
            for stop in (*keys, None):
                scanned = list(engine.scan(start, stop))

                assert engine.first(start, stop) == (scanned[0] if scanned else None)
                assert engine.last(start, stop) == (scanned[-1] if scanned else None)

    @pytest.mark.spec("ENG-4", "ENG-5", "ENG-6", "ENG-25")
    def test_ranges_begin_and_end_exactly_at_long_keys(self, engine: Engine) -> None:
        """Between any two keys around the limits of drivers, every read respects the bounds.

        An engine whose driver takes only short keys cuts the long ones, and must compare each bound
        on either side of the cut.
        """
        keys = adversarial_keys.KEYS_AROUND_LIMITS
        stored = keys[::2]
        engine.apply({key: key[-1:] for key in stored}, Durability.PROCESS_CRASH)
        for start in keys:
            for stop in (*keys, None):
                expected = [
                    (key, key[-1:])
                    for key in stored
                    if start <= key and (stop is None or key < stop)
                ]

                assert list(engine.scan(start, stop)) == expected
                assert list(engine.scan(start, stop, reverse=True)) == expected[::-1]
                assert engine.first(start, stop) == (expected[0] if expected else None)
                assert engine.last(start, stop) == (expected[-1] if expected else None)

    @pytest.mark.spec("ENG-5")
    def test_first_and_last_pass_over_deleted_keys(self, abc: Engine) -> None:
        """A deleted key is not found at either end."""
        abc.apply({b"a": None, b"c": None}, Durability.PROCESS_CRASH)

        assert abc.first(b"") == (b"b", b"2")
        assert abc.last(b"") == (b"b", b"2")

    @pytest.mark.spec("ENG-21")
    def test_an_inverted_range_has_neither_first_nor_last(self, abc: Engine) -> None:
        """A range that ends at or before its start is empty and not an error."""
        assert abc.first(b"c", b"a") is None
        assert abc.last(b"c", b"a") is None
        assert abc.first(b"b", b"b") is None
        assert abc.last(b"b", b"b") is None

    @pytest.mark.spec("ENG-5")
    def test_an_empty_engine_has_neither_first_nor_last(self, engine: Engine) -> None:
        """Nothing stored, nothing found, and no error."""
        assert engine.first(b"") is None
        assert engine.last(b"") is None


class EngineScanTests(EngineOfThreePairs):
    """Scans, forward and in reverse, and what they freeze."""

    @pytest.mark.spec("ENG-6")
    @for_each(
        ("start", "stop", "expected"),
        [
            (b"", None, [b"a", b"b", b"c"]),
            (b"a", b"c", [b"a", b"b"]),
            (b"a\x00", b"c\x00", [b"b", b"c"]),
            (b"b", None, [b"b", b"c"]),
            (b"d", None, []),
            (b"", b"a", []),
        ],
    )
    def test_a_scan_is_half_open_in_both_directions(
        self, abc: Engine, start: bytes, stop: bytes | None, expected: list[bytes]
    ) -> None:
        """*start* is included, *stop* is not; reverse gives the same pairs from the end."""
        forward = [key for key, _ in abc.scan(start, stop)]
        backward = [key for key, _ in abc.scan(start, stop, reverse=True)]

        assert forward == expected
        assert backward == expected[::-1]

    @pytest.mark.spec("ENG-6")
    def test_reverse_is_the_reversed_scan_everywhere(self, engine: Engine) -> None:
        """Between any two adversarial keys, both directions give the same pairs."""
        keys = adversarial_keys.SHORT_KEYS
        engine.apply({key: key for key in keys[1::2]}, Durability.PROCESS_CRASH)
        for start in keys:
            for stop in (*keys, None):
                forward = list(engine.scan(start, stop))

                assert list(engine.scan(start, stop, reverse=True)) == forward[::-1]

    @pytest.mark.spec("ENG-6")
    def test_split_ranges_make_up_the_whole(self, engine: Engine) -> None:
        """Cut at any key, the two halves of a scan are the scan: nothing lost, nothing twice."""
        keys = adversarial_keys.SHORT_KEYS
        engine.apply({key: key for key in keys[::2]}, Durability.PROCESS_CRASH)
        whole = pairs_of(engine)
        for cut in keys:
            assert [*engine.scan(b"", cut), *engine.scan(cut)] == whole

    @pytest.mark.spec("ENG-6")
    def test_a_long_scan_loses_nothing_on_the_way(self, engine: Engine) -> None:
        """Wherever an engine turns a page: every pair once, read from the start or the middle."""
        pairs = [(b"%05d" % number, b"%d" % number) for number in range(12_345)]
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)
        middle = pairs[999:9_001]

        for reverse, step in ((False, 1), (True, -1)):
            assert list(engine.scan(b"", reverse=reverse)) == pairs[::step]
            assert list(engine.scan(b"00999", b"09001", reverse=reverse)) == middle[::step]

    @pytest.mark.spec("ENG-21")
    def test_an_inverted_range_scans_as_empty(self, abc: Engine) -> None:
        """A range that ends at or before its start gives nothing, in either direction."""
        for start, stop in ((b"c", b"a"), (b"b", b"b"), (b"b\x00", b"b")):
            assert list(abc.scan(start, stop)) == []
            assert list(abc.scan(start, stop, reverse=True)) == []

    @pytest.mark.spec("ENG-20")
    def test_a_scan_is_frozen_at_the_call(self, abc: Engine) -> None:
        """What is applied between the call and the first step does not show up."""
        forward, reverse = abc.scan(b""), abc.scan(b"", reverse=True)
        abc.apply({b"a": None, b"b": b"new", b"bb": b"new"}, Durability.PROCESS_CRASH)

        assert list(forward) == _ABC
        assert list(reverse) == _ABC[::-1]

    @pytest.mark.spec("ENG-20")
    @pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
    def test_a_scan_under_way_does_not_see_later_batches(
        self, engine: Engine, *, reverse: bool
    ) -> None:
        """A batch after each step changes nothing in what the scan has yet to give."""
        pairs = [(b"%04d" % number, b"old") for number in range(500)]
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)
        scan = engine.scan(b"", reverse=reverse)
        seen = []
        for number, pair in enumerate(scan):
            seen.append(pair)
            batch = {b"%04d" % number: b"new", b"%04d" % (499 - number): None}
            engine.apply({**batch, b"%04d+" % number: b"new"}, Durability.PROCESS_CRASH)

        assert seen == (pairs[::-1] if reverse else pairs)

    @pytest.mark.spec("ENG-20")
    def test_several_scans_are_independent(self, abc: Engine) -> None:
        """Scans that are stepped in turn, opened at different times, keep their own view."""
        first = abc.scan(b"")
        abc.apply({b"b": b"new"}, Durability.PROCESS_CRASH)
        second = abc.scan(b"", reverse=True)
        stepped = [(next(first), next(second)) for _ in range(3)]

        assert [one for one, _ in stepped] == _ABC
        assert [two for _, two in stepped] == [(b"c", b"3"), (b"b", b"new"), (b"a", b"1")]

    @pytest.mark.spec("ENG-6")
    def test_an_exhausted_scan_stays_exhausted(self, abc: Engine) -> None:
        """After the end comes the end, even when a batch has added more since."""
        scan = abc.scan(b"")
        list(scan)
        abc.apply({b"d": b"4"}, Durability.PROCESS_CRASH)

        assert next(scan, None) is None
        assert next(scan, None) is None

    @pytest.mark.spec("ENG-20")
    def test_an_abandoned_scan_does_not_stand_in_the_way(self, abc: Engine) -> None:
        """Batches can be applied, and seen, while unfinished scans are held."""
        held = [abc.scan(b"") for _ in range(20)]
        for scan in held:
            next(scan)
        abc.apply({b"d": b"4"}, Durability.PROCESS_CRASH)

        assert pairs_of(abc) == [*_ABC, (b"d", b"4")]

    @pytest.mark.spec("ENG-30")
    def test_the_estimate_is_exact_while_nothing_was_overwritten(
        self, engines: Engines, abc: Engine
    ) -> None:
        """Keys that were written once and never deleted are counted exactly.

        Where an engine stops counting and estimates, it is right within a factor of two, of what is
        in memory and of what is in files.
        """
        assert abc.approximate_num_keys(b"") == len(_ABC)
        assert abc.approximate_num_keys(b"b", b"c") == 1
        assert abc.approximate_num_keys(b"x") == 0
        many = {b"x%05d" % number: b"%d" % number * 4 for number in range(_MANY)}
        abc.apply(many, Durability.PROCESS_CRASH)
        estimates = [abc.approximate_num_keys(b"x")]
        if abc.capabilities.persistent:
            abc.close()
            again = engines.open()
            estimates.append(again.approximate_num_keys(b"x"))

            for number in (1, 10, 300, 1_000):
                assert again.approximate_num_keys(b"x00777", b"x%05d" % (777 + number)) == number

        assert {type(estimate) for estimate in estimates} == {int}
        assert [n for n in estimates if not _MANY // 2 <= n <= _MANY * 2] == []
