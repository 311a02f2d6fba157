"""Damaged files: found, never passed on as data, and never repaired by guessing."""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.engine.disk.altered_files import (
    any_bits,
    bits_before_pairs,
    bits_of_headers,
    bits_of_page_heads,
    bits_of_pairs,
    bits_of_short_files,
    bits_of_texts,
    bits_of_what_was_added,
    bits_within_the_order,
    bytes_of,
    with_a_flipped_bit,
    with_what_is_gone,
    with_zeros_at_the_beginning,
)
from statestores_conformance.engine.disk.log_pages import LogPageTests
from statestores_conformance.engine.disk.open_damage import OpenDamageTests
from statestores_conformance.engine.disk.replaced_files import ReplacedFileTests
from statestores_conformance.engine.disk.torn_logs import TornLogTests
from statestores_conformance.intensity import seed, trials
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import (
    Engines,
    OpenEngine,
    Pairs,
    durability_of,
    fill,
    pairs_of,
)

_SEED = seed(20240229)
_TRIALS = trials(40)
_MASK = 4
"""A bit that makes of each small number a larger one: of a type or length that there is not."""
_DENSE = 80
"""In how many bytes of what was written for a few batches a bit is flipped."""
_PAGES = slice(6)
_LAST_PAGE = slice(-1, None)
_LETTERS = 6
"""How many pages, and letters of each file, have a bit flipped."""
_SHORT = 128
"""The length of files of which each third byte is worth a try: names, sums, lists of files."""
_LISTS = 384
"""The length of lists of few files in which whoever opened them last has noted what is new."""
_KEYS = 4
_TYPES = 3
"""In how many keys a bit is flipped, and in how many bytes before a pair."""
_FIRST = {b"\0" * 3: b"\xff" * 20}
"""A pair before all others, whose value is no text in any encoding that drivers know."""
_MOVED_ROWS, _MOVED_BYTES = 100, 40_000
"""More than some engines leave in a log."""
_LATER = {b"later still": b"v"}


@pytest.mark.level("fault-proof")
class EngineDamageTests(ReplacedFileTests, LogPageTests, OpenDamageTests, TornLogTests):
    """What an engine does with files that somebody else has changed."""

    @pytest.fixture
    def checking(self, persistent_engine: Engine) -> Engine:
        """Open one empty engine that finds damage."""
        promised = persistent_engine.capabilities.detects_corruption
        skip_unless_promised("detects_corruption", made=promised)
        return persistent_engine

    @pytest.mark.spec("ENG-14")
    def test_a_flipped_bit_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Whichever bit of any file is flipped: an error, or exactly what was written.

        Also one by which a page has fewer rows, each of which is as it was.
        """
        content = fill(checking)[-1]
        checking.close()
        files = bytes_of(engines.path())
        bits = [*any_bits(files, _TRIALS, _chance()), *bits_of_page_heads(files, _LAST_PAGE)]
        for damaged, what in with_a_flipped_bit(engines.path(), tmp_path, bits):
            try:
                with open_engine(damaged) as opened:
                    found = pairs_of(opened)
            except StoreCorruptedError:
                continue

            assert found == content, what

    @pytest.mark.spec("ENG-14")
    def test_a_flipped_bit_is_found_without_a_seal(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Bits are flipped where another file is empty, or what another program wrote, as well.

        A short file may say that the others are whole. One that cannot be read says nothing.
        """
        content = fill(checking)[-1]
        checking.close()
        files = bytes_of(engines.path())
        bits = list(bits_of_pairs(files, content[:: len(content) // 3]))
        bits += list(bits_of_page_heads(files, _LAST_PAGE))
        for short in [name for name, data in files.items() if 0 < len(data) <= _SHORT]:
            for number, instead in enumerate((b"", b"{}")):
                copy = tmp_path / f"{Path(short).name} {number}"
                shutil.copytree(engines.path(), copy)
                (copy / short).write_bytes(instead)
                _check_flips(copy, bits, [content], open_engine)

    @pytest.mark.spec("ENG-14", "ENG-32")
    def test_a_flipped_bit_after_a_crash_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Nobody has closed these files, so no sum of a whole file protects what is in them.

        The last batch may be taken for a torn tail; what was there before it may not change. Bits
        are flipped anywhere, at the beginnings of pages, in each byte of a few batches, in pairs
        and before them, headers, texts and short files: one can say that a log was recycled, how
        many rows a page has, that a value is a text, or hide a row by its key.
        """
        fill(checking)
        checking.apply(dict(_FIRST), durability_of(checking))
        content = pairs_of(checking)
        checking.close()
        before = bytes_of(engines.path())
        again = engines.open()
        idle, live = tmp_path / "idle", tmp_path / "live"
        shutil.copytree(engines.path(), idle)
        again.apply({}, durability_of(again))
        again.apply({b"later": b"v"}, durability_of(again))
        shutil.copytree(engines.path(), live)
        states = [content, pairs_of(again)]
        again.close()
        files, chance = bytes_of(live), _chance()
        bits = list(any_bits(files, _TRIALS, chance))
        grown = sorted(name for name, data in files.items() if data != before.get(name))
        bits += [(name, at, 8) for name in grown for at in range(0, min(8, len(files[name])), 2)]
        _check_flips(live, bits, states, open_engine)
        # Nothing in a log stands for what is damaged here.
        files = bytes_of(idle)
        bits = [*bits_of_page_heads(files, _PAGES), *bits_of_headers(files, 2 * _MASK, _SHORT)]
        bits += bits_of_short_files(files, _MASK, _LISTS)
        bits += bits_of_pairs(files, content[:: len(content) // 3])
        bits += bits_before_pairs(files, content[: len(_FIRST)], _TYPES)
        bits += bits_within_the_order(files, content, _KEYS)
        bits += bits_of_texts(files, _MASK, _LETTERS, chance)
        _check_flips(idle, bits, [content], open_engine)
        for zeroed, what in with_zeros_at_the_beginning(idle, tmp_path / "zeroed"):
            _check_content(zeroed, [content], open_engine, what)
        small, bits, states = _few_batches(open_engine, tmp_path / "small")
        _check_flips(small, bits, states, open_engine)

    @pytest.mark.spec("ENG-31")
    def test_an_opening_that_fails_repairs_nothing(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """What could not be opened is still there, byte for byte, for somebody to rescue.

        Whether it was closed or left by a process that died. And nobody holds it: it is refused
        for the same reason again.
        """
        fill(checking)
        live = tmp_path / "live"
        shutil.copytree(engines.path(), live)
        checking.close()
        refused = 0
        for source in (engines.path(), live):
            for number, path in enumerate(sorted(source.rglob("*"))):
                if not path.is_file() or not path.stat().st_size:
                    continue
                damaged = tmp_path / f"damaged-{source.name}-{number}"
                shutil.copytree(source, damaged)
                (damaged / path.relative_to(source)).write_bytes(b"\xa5" * 4096)
                refused += _is_refused_unchanged(damaged, open_engine)

        assert refused, "no damage was found at opening"

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-32", "ENG-36", "ENG-46")
    def test_a_copy_of_a_living_engine_opens_at_a_whole_batch(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The files that a dead process leaves behind open again, with every batch in them.

        So they do when whoever opened them died before it had removed what it no longer needs.
        """
        fill(persistent_engine)
        long = _chance().randbytes(100_000)  # more than a log has in one piece
        persistent_engine.apply({b"long": long}, durability_of(persistent_engine))
        content = pairs_of(persistent_engine)
        shutil.copytree(engines.path(), tmp_path / "left")
        _check_what_a_second_death_leaves(tmp_path / "left", content, open_engine)
        # So much in a second life that a log is moved to other files.
        persistent_engine.close()
        second = engines.open()
        for number in range(2):
            value = _chance().randbytes(_MOVED_BYTES)
            batch = {b"moved %d-%03d" % (number, row): value for row in range(_MOVED_ROWS)}
            second.apply(dict(batch), durability_of(second))
        content = pairs_of(second)
        shutil.copytree(engines.path(), tmp_path / "moved")
        with open_engine(tmp_path / "moved") as opened:
            assert pairs_of(opened) == content


def _chance() -> random.Random:
    return random.Random(_SEED)  # noqa: S311  # reproducible, not secret


def _few_batches(
    open_engine: OpenEngine, root: Path
) -> tuple[Path, list[tuple[str, int, int]], list[Pairs]]:
    """Apply three batches of one pair to an engine below *root*, and leave a copy of it.

    Return the copy, bits of what was written for them and of what was there, and the states.
    """
    states = [Pairs()]
    with open_engine(root / "engine") as engine:
        before = bytes_of(root / "engine")
        for number in range(3):
            engine.apply({b"%d" % number: b"v"}, durability_of(engine))
            states.append(pairs_of(engine))
        shutil.copytree(root / "engine", root / "live")
    after = bytes_of(root / "live")
    bits = bits_of_what_was_added(before, after, _MASK, _DENSE, _chance())
    return root / "live", [*bits, *bits_of_short_files(before, _MASK, _SHORT)], states


def _check_flips(
    live: Path, bits: list[tuple[str, int, int]], states: list[Pairs], open_engine: OpenEngine
) -> None:
    """Open copies of *live* with each of *bits* flipped: one of *states*, or refused."""
    for damaged, what in with_a_flipped_bit(live, live.parent / "flipped", bits):
        _check_content(damaged, states, open_engine, what)


def _check_content(damaged: Path, states: list[Pairs], open_engine: OpenEngine, what: str) -> None:
    """Open *damaged*: it has one of *states* and takes a batch, or is refused."""
    with suppress(StoreCorruptedError), open_engine(damaged) as opened:
        # A row that is found by no key may be met by a scan.
        values = opened.get_many([key for key, _ in states[-1]])
        got = [pair for pair, value in zip(states[-1], values, strict=True) if value]
        assert got in states, what
        assert pairs_of(opened) in states, what
        # What is said to be whole is written in the way in which it is read.
        opened.apply(_LATER, durability_of(opened))
        assert opened.get_many(list(_LATER)) == list(_LATER.values()), what


def _check_what_a_second_death_leaves(left: Path, content: Pairs, open_engine: OpenEngine) -> None:
    """Open *left*, which holds *content*; and once more, with the files that this has replaced.

    Of those the system may have lost the end, or a page: nobody has waited for it.
    """
    again = left.with_name("again")
    shutil.copytree(left, again)
    with open_engine(again) as opened:
        assert pairs_of(opened) == content
        opened.apply({b"later": b"v"}, durability_of(opened))
        later = pairs_of(opened)
        shutil.copytree(again, left.with_name("later"))
    for cut in (0, 3, 1_000):
        place = left.with_name(f"put back without {cut}")
        for path in with_what_is_gone(left, left.with_name("later"), place):
            path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])
        with open_engine(place) as opened:
            assert pairs_of(opened) == later


def _is_refused_unchanged(damaged: Path, open_engine: OpenEngine) -> bool:
    """Return whether the engine in *damaged* is not opened, and check that all of it is left."""
    before = bytes_of(damaged)
    try:
        open_engine(damaged).close()
    except StateStoreError as error:
        first = error  # with its traceback, as somebody has it who handles the error
    else:
        return False
    with pytest.raises(type(first)):
        open_engine(damaged)
    after = bytes_of(damaged)
    # A log for humans may be rotated: what it held is then under another name.
    lost = [
        name
        for name, data in before.items()
        if not any(kept.startswith(data) for kept in after.values())
    ]

    assert [name for name in lost if "lock" not in name.lower()] == []
    return True
