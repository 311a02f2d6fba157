"""The power fails at any moment: what was promised to survive it is there, and nothing is made up.

This is about the formats that are ours: changelog, snapshots, the small JSON files, staged writes.
The engine is one in memory, so that whatever is found comes from them. What an engine of its own
makes of a power failure nobody can prove here (COM-26, ASM-1).
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from judgement import judge_logged, judge_staged
from lives import Say, logged_life, staged_life
from power_failure import Image, Moment, Recording, images

import statestores as ss
from statestores.changelog import ChangelogReader, FileChangelog
from statestores.errors import StoreNotFoundError
from statestores.files.durable_json import read_json, write_json

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
_SEED = 26
_CHANCES = 12 if _SOAK else 1
_SHARE = 1.0 if _SOAK else 0.25
"""The share of the moments that are judged."""


class Oracle:
    """What was promised, and how much of it at each moment."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []

    def say(self, word: str, number: int) -> None:
        """Take note."""
        self.lines.append((word, number))

    def at(self, moment: Moment, word: str) -> int | None:
        """Return the highest number said with *word* up to *moment*."""
        said = [number for each, number in self.lines[: moment.told] if each == word]
        return max(said, default=None)


def _record(directory: Path, live: Callable[[Path, Say], None]) -> tuple[list[Moment], Oracle]:
    """Run a life below *directory* and return its moments."""
    root, oracle = directory / "state", Oracle()
    root.mkdir()
    recording = Recording(root, lambda: len(oracle.lines))
    with recording.running():
        live(root, oracle.say)
    return recording.moments, oracle


def _failures(
    moments: list[Moment], oracle: Oracle, dice: random.Random
) -> list[tuple[Moment, Image]]:
    """Return the power failures to judge: those that leave the same, and owe the same, once."""
    chosen = [moment for moment in moments if dice.random() < _SHARE]
    failures: dict[object, tuple[Moment, Image]] = {}
    for moment in chosen:
        owed = oracle.at(moment, "durable"), oracle.at(moment, "intent")
        for image in images(moment, dice, _CHANCES):
            failures.setdefault((owed, image.content()), (moment, image))
    return list(failures.values())


@pytest.mark.spec("LGS-11", "COM-12", "LOG-5", "LOG-10", "LOG-12", "SNP-2", "LGS-6")
def test_a_logged_store_keeps_what_was_promised(tmp_path: Path) -> None:
    """Commits that wait for the disk are all there; the others go from the last one backward."""

    def live(root: Path, say: Say) -> None:
        for _ in range(2):
            logged_life(root, say, backend=None)

    moments, oracle = _record(tmp_path, live)
    for moment, image in _failures(moments, oracle, random.Random(_SEED)):
        image.write(tmp_path / "left")
        durable, begun = oracle.at(moment, "durable"), oracle.at(moment, "intent")
        _, wrong = judge_logged(tmp_path / "left", durable, begun, backend=None)

        assert wrong == [], f"moment {moment.number}, {moment.what}"


@pytest.mark.spec("COM-12", "COM-2")
def test_a_staged_write_is_there_in_every_partition_or_in_none(tmp_path: Path) -> None:
    """Also when the power fails again while the next writer finishes it."""

    def live(root: Path, say: Say) -> None:
        staged_life(root, say, first=1, writes=3)

    moments, oracle = _record(tmp_path, live)
    for moment, image in _failures(moments, oracle, random.Random(_SEED)):
        image.write(tmp_path / "left")
        durable, begun = oracle.at(moment, "durable") or 0, oracle.at(moment, "intent") or 0
        _, wrong = judge_staged(tmp_path / "left", durable, begun)

        assert wrong == [], f"moment {moment.number}, {moment.what}"


@pytest.mark.spec("ASM-2", "COM-27")
def test_a_small_file_is_as_it_was_or_as_it_should_be(tmp_path: Path) -> None:
    """Whatever is lost, there is one of the contents that were written, and never an older one."""

    def live(root: Path, say: Say) -> None:
        for number in range(4):
            say("intent", number)
            write_json(root / "small.json", {"number": number, "filler": "x" * 5_000})
            say("durable", number)

    moments, oracle = _record(tmp_path, live)
    for moment in moments:
        for image in images(moment, random.Random(_SEED), 4 * _CHANCES):
            image.write(tmp_path / "left")
            content = read_json(tmp_path / "left" / "small.json")
            found = -1 if content is None else content["number"]
            durable = oracle.at(moment, "durable")

            assert (-1 if durable is None else durable) <= found, moment.what
            assert found <= (oracle.at(moment, "intent") or 0), moment.what


@pytest.mark.spec("LGS-11", "LOG-10")
def test_what_was_not_waited_for_goes_from_the_end(tmp_path: Path) -> None:
    """A changelog of appends that nobody waited for loses whole ones, the last first."""
    values = [b"%d" % number * 900 for number in range(12)]

    def live(root: Path, say: Say) -> None:
        with FileChangelog.create(root / "log", "key-value") as log:
            for number, value in enumerate(values):
                durability = ss.Durability.POWER_LOSS if number == 5 else _PROCESS_CRASH
                log.append(ss.Changes([b"k"], [value]), durability=durability)
                if number == 5:
                    say("durable", 5)
                _marker(tmp_path).rmdir()  # a moment to look at
            say("intent", len(values))

    moments, oracle = _record(tmp_path, live)
    lengths = set()
    for moment in moments:
        for image in images(moment, random.Random(_SEED), 6 * _CHANCES):
            image.write(tmp_path / "left")
            found = _values(tmp_path / "left" / "log")
            durable = oracle.at(moment, "durable")
            lengths.add(len(found))

            assert found == values[: len(found)], moment.what
            assert len(found) > (-1 if durable is None else durable), moment.what

    assert len(lengths) > 5


_PROCESS_CRASH = ss.Durability.PROCESS_CRASH


def _marker(directory: Path) -> Path:
    """Return a new directory outside of what is recorded: removing it is a moment."""
    marker = directory / "marker"
    marker.mkdir()
    return marker


def _values(log: Path) -> list[bytes | None]:
    """Return the values of the changelog at *log*, as a writer finds them."""
    try:
        FileChangelog.open(log, "key-value").close()
    except StoreNotFoundError:
        return []
    with ChangelogReader.open(log) as reader:
        return [value for frame in reader.read() for value in frame.changes.values]


def test_the_recording_finds_a_file_that_nobody_waited_for(tmp_path: Path) -> None:
    """The kit itself: a file that is renamed before it is on disk may be empty, or torn."""

    def live(root: Path, say: Say) -> None:
        (root / "new").write_bytes(b"x" * 10_000)
        (root / "new").rename(root / "name")
        descriptor = os.open(root, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    moments, _ = _record(tmp_path, live)
    found = set()
    for image in images(moments[-1], random.Random(_SEED), 40):
        image.write(tmp_path / "left")
        found.add((tmp_path / "left" / "name").read_bytes())

    assert {b"", b"x" * 10_000} < found
    assert len(found) > 5


def test_the_recording_finds_a_name_that_nobody_waited_for(tmp_path: Path) -> None:
    """The kit itself: without the directory's fsync the old name may be back, never both."""

    def live(root: Path, say: Say) -> None:
        descriptor = os.open(root, os.O_RDONLY)
        (root / "old").write_bytes(b"x")
        os.fsync(descriptor)
        (root / "old").rename(root / "new")
        os.close(descriptor)

    moments, _ = _record(tmp_path, live)
    found = set()
    for image in images(moments[-1], random.Random(_SEED), 40):
        image.write(tmp_path / "left")
        found.add(tuple(sorted(path.name for path in (tmp_path / "left").iterdir())))

    assert found == {("old",), ("new",)}
