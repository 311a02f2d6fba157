"""An engine that runs short of open files, or of room on the disk, at each step of its life.

The limits are raised from nothing until a life needs no more, so that each call which opens a file,
and each that makes one longer, fails once.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from statestores.errors import (
    CommitInDoubtError,
    InvalidArgumentError,
    StateStoreError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.spi import Durability, Engine
from statestores_conformance.engine.disk.failed_waits import FailedWaitTests
from statestores_conformance.engine.disk.process_limits import file_size, files_left
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.engines import (
    OpenEngine,
    durability_of,
    open_files_below,
    open_into,
    pairs_of,
)

_BEFORE = [(b"before-%02d" % number, b"v" * 100) for number in range(20)]
_HURRIED = {b"hurried": b"h"}
_SMALL = {b"small": b"s"}
_LARGE = {b"large-%d" % number: b"%d" % number * 40_000 for number in range(3)}
_MUCH = {b"much-%03d" % number: b"m" * 50_000 for number in range(70)}
"""More than some engines leave in a log."""
_AFTER = {b"after": b"a"}
_INGESTED = [(b"ingested-%d" % number, b"i" * 100) for number in range(3)]

_MOST_FILES = 80
"""More than any life here opens."""
_FEW_FILES = 3
_LITTLE_ROOM = 1_000
"""Less than the pages of a file have, and more than a note beside it."""
_SIZES = (0, 1, 20, 100, 1_000, 5_000, 20_000, 40_000, 90_000, 140_000, 400_000, 2_000_000)
"""How long a file may become: the largest is more than any here does."""

_LONG = {b"long": b"l" * 30_000, b"short": b"s"}
"""Makes a log longer than what else a small batch makes longer."""
_ENDS = 20
"""How many lengths are tried of what a call adds to one file, or all of them."""

_UNTRUE = (StoreCorruptedError, StoreLockedError, InvalidArgumentError)
"""What sends users to restore, to look for another program, or for a mistake of their own."""


@dataclass(slots=True)
class _Life:
    """One opening of an engine, and what each call came to."""

    must: dict[bytes, bytes]
    """What is there, since it was acknowledged."""
    failures: int = 0
    copies: dict[Path, dict[bytes, bytes]] = field(default_factory=dict)
    """The checkpoints that were made, and what is in them."""

    def attempt(self, call: Callable[[], object]) -> bool:
        """Make *call* and return whether it succeeded; what it raises must be ours, and true."""
        try:
            call()
        except CommitInDoubtError:
            raise
        except _UNTRUE as error:
            pytest.fail(f"the system was short of something, and nothing else is wrong: {error!r}")
        except StateStoreError:
            self.failures += 1
            return False
        return True

    def write(self, pairs: dict[bytes, bytes], call: Callable[[], object]) -> None:
        """Make *call*, which writes *pairs*; it may not be in doubt, since no wait has failed."""
        try:
            if self.attempt(call):
                self.must.update(pairs)
        except CommitInDoubtError as error:
            pytest.fail(f"the disk has failed nobody who waited for it (ENG-39): {error}")


@pytest.mark.level("fault-proof")
class EngineShortageTests(FailedWaitTests):
    """What an engine says, and what it keeps, when the system refuses."""

    @pytest.mark.spec(
        "ENG-8", "ENG-9", "ENG-16", "ENG-19", "ENG-28", "ENG-31", "ENG-33", "ENG-34", "ENG-39"
    )
    @for_each("of", ["open files", "room on the disk"])
    def test_a_shortage_loses_nothing(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path, of: str
    ) -> None:
        """Each call does all of what it should, or raises an error of ours and does nothing.

        When there is enough again, the same engine reads all of it, and another opens with it.
        """
        shortage, amounts = _SHORTAGES[of]
        # What is imported, or kept for the life of the process, is so by then.
        _live(open_engine, tmp_path / f"warm {of}", shortage, amounts[-1])
        failures = []
        for amount in amounts:
            failures.append(_live(open_engine, tmp_path / f"{amount} {of}", shortage, amount))
            if not failures[-1]:
                break

        assert failures[0]
        assert not failures[-1]
        # The first batch of all may be the one for which there is no room; and once it is open, an
        # engine may be left with less than it takes to open.
        for amount in _SIZES[4:10:2] if shortage is file_size else range(_FEW_FILES):
            place = tmp_path / f"{amount} {of}, at once"
            batches = (_LARGE, _HURRIED, _SMALL)
            opened_before = shortage is files_left
            _live(open_engine, place, shortage, amount, batches, opened_before=opened_before)

    @pytest.mark.spec("ENG-8", "ENG-16", "ENG-28", "ENG-34")
    def test_room_that_ends_within_a_call_leaves_all_of_it_or_nothing(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Wherever it ends, also in what is written down when the call has had its effect.

        To fail there is to tell the caller that nothing happened.
        """
        calls = {"apply": lambda engine: engine.apply(dict(_INGESTED), durability_of(engine))}
        if persistent_engine.capabilities.bulk_ingest:
            calls["ingest"] = lambda engine: engine.ingest(_INGESTED)
        for name, call in calls.items():
            ends = _grow(open_engine, tmp_path / name, call, None)
            for end in ends:
                _grow(open_engine, tmp_path / f"{name}, {end} bytes", call, end)

    @pytest.mark.spec("ENG-17", "ENG-19", "ENG-28")
    @for_each("of", ["open files", "room on the disk"])
    def test_a_creation_in_a_shortage_can_be_repeated(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path, of: str
    ) -> None:
        """Whatever of an empty engine is there when the system refuses the rest.

        The next opening finishes it, as it does after a crash.
        """
        shortage, amounts = _SHORTAGES[of]
        for amount in amounts:
            life = _Life(must={})
            path = tmp_path / f"new, {amount} {of}"
            opened: list[Engine] = []
            with shortage(amount):
                if life.attempt(partial(open_into, opened, open_engine, path)):
                    life.attempt(opened[0].close)
            for engine in opened:
                engine.close()

            assert open_files_below(path) == []
            for content in ([], [(b"k", b"v")]):
                with open_engine(path) as again:
                    assert pairs_of(again) == content
                    again.apply({b"k": b"v"}, durability_of(again))
            if not life.failures:
                break

    @pytest.mark.spec("ENG-18", "ENG-19", "ENG-28")
    def test_a_close_and_an_opening_in_a_shortage_lose_nothing(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """An engine is closed on a full disk, and opened by who may open a few files and no more.

        What the first could not finish the second may have done by half.
        """
        left = tmp_path / "closed on a full disk"
        engine = open_engine(left)
        engine.apply(dict(_BEFORE), durability_of(engine))
        with file_size(_LITTLE_ROOM):
            _Life(must={}).attempt(engine.close)
        engine.close()
        for amount in range(_MOST_FILES):
            life = _Life(must={})
            place = shutil.copytree(left, tmp_path / f"{amount} open files")
            opened: list[Engine] = []
            with files_left(amount):
                life.attempt(partial(open_into, opened, open_engine, place))
            for each in opened:
                each.close()

            assert open_files_below(place) == []
            with open_engine(place) as again:
                assert pairs_of(again) == _BEFORE
            if not life.failures:
                break

    @pytest.mark.spec("ENG-8", "ENG-10", "ENG-15", "ENG-18", "ENG-19", "ENG-28")
    @for_each(("last", "room"), [(_HURRIED, 0), (_MUCH, 0), (_HURRIED, _SIZES[-1])])
    def test_a_close_without_room_loses_nothing(
        self,
        persistent_engine: Engine,
        open_engine: OpenEngine,
        tmp_path: Path,
        last: dict[bytes, bytes],
        room: int,
    ) -> None:
        """Whether the last batch is in a log alone, or so long that a log was moved for it.

        Closing again, when there is room, finishes it or does nothing: where the directory was by
        then moved away, nothing comes.
        """
        path, moved = tmp_path / f"{room}, {len(last)}", tmp_path / f"{room}, {len(last)}, moved"
        engine = open_engine(path)
        engine.apply(dict(_BEFORE), durability_of(engine))
        engine.apply(dict(last), Durability.PROCESS_CRASH)
        with file_size(room):
            _Life(must={}).attempt(engine.close)
        engine.close()

        assert open_files_below(path) == []
        path.rename(moved)
        path.mkdir()
        engine.close()
        assert list(path.iterdir()) == []
        for content in (dict(_BEFORE) | last, dict(_BEFORE) | last | _AFTER):
            with open_engine(moved) as again:
                assert dict(pairs_of(again)) == content
                again.apply(dict(_AFTER), durability_of(again))


def _live(
    open_engine: OpenEngine,
    path: Path,
    shortage: Callable[[int], AbstractContextManager[None]],
    amount: int,
    batches: Sequence[dict[bytes, bytes]] = (_HURRIED, _SMALL, _LARGE),
    *,
    opened_before: bool = False,
) -> int:
    """Open the engine at *path*, use it and close it in a *shortage*, and look at what is there.

    Return how many calls failed. With *opened_before*, it comes when the engine is open.
    """
    with open_engine(path) as engine:
        engine.apply(dict(_BEFORE), durability_of(engine))
    files = _bytes_of(path)
    life = _Life(must=dict(_BEFORE))
    opened: list[Engine] = []
    if opened_before:
        opened.append(open_engine(path))
    with shortage(amount):
        if opened or life.attempt(lambda: opened.append(open_engine(path))):
            _use(opened[0], life, path, batches)
    if opened:
        engine = opened[0]
        life.write(_AFTER, lambda: engine.apply(dict(_AFTER), durability_of(engine)))
        _check_reads(engine, life)
        with shortage(amount):
            life.attempt(engine.close)
        life.attempt(engine.close)
    elif shortage is files_left:
        # On a full disk a driver may have begun to write anew what it keeps beside the pairs.
        kept = _bytes_of(path).values()

        assert [n for n, old in files.items() if not any(new.startswith(old) for new in kept)] == []
    assert open_files_below(path) == []
    if shortage is file_size:  # without a file to open, no directory can be emptied
        beside = {each for each in path.parent.iterdir() if path.name in each.name}
        assert beside == {path, *life.copies}, "a checkpoint that was not made is there (ENG-15)"
    for place, content in {path: life.must, **life.copies}.items():
        with open_engine(place) as again:
            assert dict(pairs_of(again)) == content
            again.apply({b"later": b"v"}, durability_of(again))
            assert again.get(b"later") == b"v"
        # Nothing is left to write, but that it was closed.
        idle = open_engine(place)
        with shortage(amount):
            life.attempt(idle.close)
        idle.close()
        with open_engine(place) as again:
            assert dict(pairs_of(again)) == content | {b"later": b"v"}
    return life.failures


def _use(engine: Engine, life: _Life, path: Path, batches: Sequence[dict[bytes, bytes]]) -> None:
    """Make every kind of call, *batches* among them, while some of them fail."""
    promised = engine.capabilities
    life.attempt(lambda: _check_reads(engine, life))
    for batch in batches:
        # What waits for nothing is owed by the next batch that waits.
        durability = Durability.PROCESS_CRASH if batch is _HURRIED else durability_of(engine)
        life.write(batch, partial(engine.apply, dict(batch), durability))
        life.attempt(lambda: _check_reads(engine, life))
    if promised.bulk_ingest:
        life.write(dict(_INGESTED), lambda: engine.ingest(_INGESTED))
    if promised.native_checkpoint:
        copy = path.with_name(f"{path.name}-copy")
        before = dict(life.must)
        if life.attempt(lambda: engine.checkpoint(copy)):
            life.copies[copy] = before
    life.write({b"last": b"l"}, lambda: engine.apply({b"last": b"l"}, Durability.PROCESS_CRASH))


def _grow(
    open_engine: OpenEngine, path: Path, call: Callable[[Engine], None], room: int | None
) -> list[int]:
    """Make *call*, which writes `_INGESTED`, with *room* for each file, and look at what is there.

    Return lengths at which it may have no room, between what its files are before it and after it.
    """
    life = _Life(must={})
    with open_engine(path) as engine:
        life.write(_LONG, lambda: engine.apply(dict(_LONG), durability_of(engine)))
        before = _bytes_of(path)
        with nullcontext() if room is None else file_size(room):
            life.write(dict(_INGESTED), lambda: call(engine))
        _check_reads(engine, life)
        grown = [(len(before.get(name, b"")), len(now)) for name, now in _bytes_of(path).items()]
    with open_engine(path) as again:
        assert dict(pairs_of(again)) == life.must
    lengths: set[int] = set()
    for start, stop in grown:
        lengths.update(range(start, stop, 1 + (stop - start) // _ENDS))
        if start < stop:
            lengths.add(stop - 1)  # of whatever is written last
    return sorted(lengths)


def _check_reads(engine: Engine, life: _Life) -> None:
    """Read what is acknowledged in every way; what was refused is not seen."""
    content = sorted(life.must.items())
    keys = [key for key, _ in content]
    with engine.snapshot() as snapshot:
        for reader in (engine, snapshot):
            assert pairs_of(reader) == content
            assert reader.get_many(keys) == [value for _, value in content]
            assert [reader.get(key) for key in keys] == [value for _, value in content]
            assert reader.first(keys[0]) == content[0]
            assert reader.last(b"", keys[1]) == content[0]


_SHORTAGES: dict[str, tuple[Callable[[int], AbstractContextManager[None]], Sequence[int]]] = {
    "open files": (files_left, range(_MOST_FILES)),
    "room on the disk": (file_size, _SIZES),
}


def _bytes_of(directory: Path) -> dict[str, bytes]:
    """Return the files that *directory* holds, but for locks."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files if "lock" not in path.name.lower()}
