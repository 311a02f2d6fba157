"""The sizes of keys and values: what must be accepted is kept whole, the rest kept or refused."""

import pytest

from statestores.errors import InvalidArgumentError, StateStoreError
from statestores.spi import Durability, Engine
from statestores_conformance.many_cases import for_each
from statestores_conformance.promises import skip_because_promised, skip_unless_promised
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.engines import EngineFixtures, Engines, pairs_of

_SIZES_AROUND_EDGES = (
    *(5 << 20, (4 << 20) + 1, 4 << 20, 1 << 20),
    *((1 << 16) + 1, 1 << 16, (1 << 16) - 1, 4_097, 4_096, 4_095, 1 << 20, 255, 0),
)
"""Sizes of values, one after the other: around those from which drivers keep a value elsewhere, or
its length in more bytes."""

_BEYOND_BYTES = adversarial_keys.LONGEST_KEY_BYTES + 1


class EngineSizeTests(EngineFixtures):
    """Keys as long and values as large as the contract allows, and one byte more."""

    @pytest.fixture
    def longest(self, engine: Engine) -> list[bytes]:
        """Give keys of the greatest length that the engine must accept, in order."""
        limit = engine.capabilities.max_key_bytes
        return adversarial_keys.keys_of(limit or adversarial_keys.LONGEST_KEY_BYTES)

    @pytest.mark.spec("ENG-25", "ENG-4", "ENG-6")
    def test_the_longest_keys_are_kept_apart(self, engine: Engine, longest: list[bytes]) -> None:
        """Each has its own value, they come in order, and each is deleted alone."""
        pairs = {key: b"%d" % number for number, key in enumerate(longest)}
        engine.apply(pairs, Durability.PROCESS_CRASH)

        assert pairs_of(engine) == list(pairs.items())
        assert engine.get_many(longest) == list(pairs.values())
        engine.apply(dict.fromkeys(longest[::2]), Durability.PROCESS_CRASH)
        assert [key for key, _ in engine.scan(b"")] == longest[1::2]

    @pytest.mark.spec("ENG-25", "ENG-5", "ENG-6")
    def test_ranges_begin_and_end_exactly_at_the_longest_keys(
        self, engine: Engine, longest: list[bytes]
    ) -> None:
        """Between any two of them every read respects the bounds."""
        stored = longest[::2]
        engine.apply({key: key[-1:] for key in stored}, Durability.PROCESS_CRASH)
        for start in longest:
            for stop in (*longest, None):
                expected = [
                    (key, key[-1:])
                    for key in stored
                    if start <= key and (stop is None or key < stop)
                ]

                assert list(engine.scan(start, stop)) == expected
                assert list(engine.scan(start, stop, reverse=True)) == expected[::-1]
                assert engine.first(start, stop) == (expected[0] if expected else None)
                assert engine.last(start, stop) == (expected[-1] if expected else None)

    @pytest.mark.spec("ENG-2", "ENG-25")
    def test_the_largest_value_comes_back(self, engine: Engine) -> None:
        """A value of 10 MiB is a value like any other."""
        value = bytes(range(256)) * (adversarial_keys.LARGEST_VALUE_BYTES // 256)
        engine.apply({b"k": value, b"l": b"after"}, Durability.PROCESS_CRASH)

        assert engine.get(b"k") == value
        assert engine.get(b"l") == b"after"

    @pytest.mark.spec("ENG-2", "ENG-18", "ENG-25")
    def test_a_value_is_replaced_by_one_of_any_other_size(
        self, engines: Engines, engine: Engine
    ) -> None:
        """Of the longer one before it nothing is left, wherever either of the two is kept."""
        for number, size in enumerate(_SIZES_AROUND_EDGES):
            value = bytes((number,)) * size
            engine.apply(
                {b"k": value, b"k%d" % (size % 3): value[:70_000]}, Durability.PROCESS_CRASH
            )

            assert engine.get(b"k") == value
        content = pairs_of(engine)
        if engine.capabilities.persistent:
            engine.close()
            engine = engines.open()

        assert pairs_of(engine) == content

    @pytest.mark.spec("ENG-25", "ENG-16")
    @for_each(
        ("key", "value_bytes"),
        [
            (adversarial_keys.keys_of(_BEYOND_BYTES)[0], 1),
            (adversarial_keys.keys_of(_BEYOND_BYTES)[-2], 1),
            (b"k", adversarial_keys.LARGEST_VALUE_BYTES + 1),
        ],
    )
    def test_an_oversized_pair_is_stored_whole_or_refused(
        self, engine: Engine, key: bytes, value_bytes: int
    ) -> None:
        """Beyond the sizes that all engines accept: never truncated, never half a batch."""
        value = b"v" * value_bytes
        try:
            engine.apply({b"other": b"v", key: value}, Durability.PROCESS_CRASH)
        except StateStoreError:
            assert pairs_of(engine) == []
        else:
            assert pairs_of(engine) == sorted([(key, value), (b"other", b"v")])
            engine.apply({b"other": None, key: None}, Durability.PROCESS_CRASH)

    @pytest.mark.spec("ENG-38")
    def test_a_limit_of_keys_is_one_that_the_contract_allows(self, engine: Engine) -> None:
        """A number of bytes from 1 KiB to less than 64 KiB; ``None`` means the contract's limit."""
        limit = engine.capabilities.max_key_bytes
        skip_because_promised("keys of 64 KiB", made=limit is None)

        assert type(limit) is int
        assert adversarial_keys.LONG_KEY_BYTES <= limit < adversarial_keys.LONGEST_KEY_BYTES

    @pytest.mark.spec("ENG-38", "ENG-16")
    def test_a_key_above_the_limit_is_stored_whole_or_refused(self, engine: Engine) -> None:
        """The error is about arguments and names the limit, and none of the batch is there."""
        limit = engine.capabilities.max_key_bytes
        skip_because_promised("keys of 64 KiB", made=limit is None)
        for length in ((limit or 0) + 1, adversarial_keys.LONGEST_KEY_BYTES):
            for key in adversarial_keys.keys_of(length):
                refusal = None
                try:
                    engine.apply({b"other": b"v", key: b"v"}, Durability.PROCESS_CRASH)
                except InvalidArgumentError as error:
                    refusal = str(error).replace(",", "")
                if refusal is None:
                    assert pairs_of(engine) == sorted([(key, b"v"), (b"other", b"v")])
                    engine.apply({b"other": None, key: None}, Durability.PROCESS_CRASH)
                else:
                    assert str(limit) in refusal
                    assert pairs_of(engine) == []

    @pytest.mark.spec("ENG-25")
    def test_keys_of_64_kib_are_promised(self, engine: Engine) -> None:
        """A backend that must declare a limit is named among those that promise less."""
        skip_unless_promised(
            "keys of 64 KiB (max_key_bytes)", made=engine.capabilities.max_key_bytes is None
        )
        key = b"k" * adversarial_keys.LONGEST_KEY_BYTES
        engine.apply({key: b"v"}, Durability.PROCESS_CRASH)

        assert engine.get(key) == b"v"
