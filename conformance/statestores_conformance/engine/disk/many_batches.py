"""More than engines are tried with: rows that two bytes do not count, and thousands of batches.

What an engine does once in a thousand batches, or keeps in a number of two bytes, is right until
there are so many. Reading tells nothing while the engine is open, since its memory has everything.
"""

from pathlib import Path

import pytest

from statestores.spi import Durability, Engine
from statestores_conformance.engine.disk.killed_copy import killed_copy
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.engines import EngineFixtures, Engines, OpenEngine, pairs_of

_ROWS = 66_000
"""More than two bytes count."""

_BATCHES = 5_000


class EngineManyBatchesTests(EngineFixtures):
    """What is found of much: by the next opening, and in what a kill leaves."""

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-7", "ENG-8", "ENG-18", "ENG-27")
    def test_a_batch_of_more_rows_than_two_bytes_count_is_found_whole(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The last change of it as the first one, and the batch after it."""
        rows = {b"%05d" % number: b"v" for number in range(_ROWS)}
        persistent_engine.apply({b"z": b"deleted"}, Durability.PROCESS_CRASH)
        persistent_engine.apply({**rows, b"~": b"v", b"z": None}, Durability.PROCESS_CRASH)
        persistent_engine.apply({b"later": b"v"}, Durability.PROCESS_CRASH)
        expected = [*rows, b"later", b"~"]
        _check_both(engines, persistent_engine, open_engine, tmp_path, expected)

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-8", "ENG-18", "ENG-25")
    def test_the_longest_keys_and_values_are_found(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Their lengths as well as the longest there are in the engine's memory."""
        limit = persistent_engine.capabilities.max_key_bytes
        keys = adversarial_keys.keys_of(limit or adversarial_keys.LONGEST_KEY_BYTES)
        persistent_engine.apply(dict.fromkeys(keys, b"v"), Durability.PROCESS_CRASH)
        value = b"v" * adversarial_keys.LARGEST_VALUE_BYTES
        persistent_engine.apply({keys[0]: value, b"~": b"v"}, Durability.PROCESS_CRASH)
        reopened = _check_both(
            engines, persistent_engine, open_engine, tmp_path, sorted([*keys, b"~"])
        )

        assert reopened.get(keys[0]) == value

        reopened.close()  # a copy may name what it has elsewhere, as on a server
        with open_engine(tmp_path / "left") as killed:
            assert killed.get(keys[0]) == value

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-8", "ENG-18")
    def test_what_a_killed_life_wrote_does_not_come_back(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Over what later lives have put and deleted, each of them closed or killed again."""
        persistent_engine.apply(dict.fromkeys((b"a", b"b", b"c"), b"1"), Durability.PROCESS_CRASH)
        left = killed_copy(engines.path(), tmp_path / "0")
        persistent_engine.close()
        content = dict.fromkeys((b"a", b"b", b"c"), b"1")
        lives: list[tuple[bytes, bytes | None]] = [(b"a", b"2"), (b"b", None), (b"d", b"2")]
        lives += [(b"d", None), (b"b", b"3"), (b"c", None), (b"a", None), (b"a", b"4")]
        for number, (key, value) in enumerate(lives, start=1):
            with open_engine(left) as opened:
                assert dict(pairs_of(opened)) == content
                opened.apply({key: value}, Durability.PROCESS_CRASH)
                if number % 3 == 0:  # this one is killed
                    killed = killed_copy(left, tmp_path / str(number))
            left = killed if number % 3 == 0 else left
            content.pop(key, None)
            if value is not None:
                content[key] = value
        with open_engine(left) as opened:
            assert dict(pairs_of(opened)) == content

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-8", "ENG-18", "ENG-27")
    def test_each_of_thousands_of_batches_is_found(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """What an engine does now and then, between two of them, costs none."""
        keys = [b"%04d" % number for number in range(_BATCHES)]
        for key in keys:
            persistent_engine.apply({key: b"v"}, Durability.PROCESS_CRASH)
        _check_both(engines, persistent_engine, open_engine, tmp_path, keys)


def _check_both(
    engines: Engines, engine: Engine, open_engine: OpenEngine, root: Path, keys: list[bytes]
) -> Engine:
    """Find exactly *keys* in what a kill of *engine* would leave, and after it was closed.

    Return the engine that was opened then.
    """
    left = killed_copy(engines.path(), root / "left")
    engine.close()
    with open_engine(left) as opened:
        assert [key for key, _ in opened.scan(b"")] == keys

    reopened = engines.open()
    assert [key for key, _ in reopened.scan(b"")] == keys
    return reopened
