"""Kafka Streams' own stores as a peer: they do the same work, and are left out without Java."""

import shutil
from functools import cached_property
from pathlib import Path

import pytest
from forked_programs import run

pytest.importorskip("rocksdict", reason="the driver rocksdict is not installed")

# Behind the skip, since they import the driver.
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores_benchmarks.cases import TINY, Outcome
from statestores_benchmarks.kafka_stores.groups import KAFKA, WORKS, Work, groups
from statestores_benchmarks.kafka_stores.ours import Way
from statestores_benchmarks.kafka_stores.rows import VERSIONS, Rows
from statestores_benchmarks.measurement import measure
from statestores_rocksdb import RocksDBEngine

_COMMAND = """
import os, runpy, sys

os.environ.clear()
os.environ["PATH"] = sys.argv.pop(1)
runpy.run_module("statestores_benchmarks", run_name="__main__", alter_sys=True)
"""

MOST_HEAD_BYTES = 16
"""What ours may have in front of the names of a commit's rows."""


class RowsWithZeros(Rows):
    """Rows whose keys hold zero bytes: where one lies before something else, they are escaped."""

    @cached_property
    def keys(self) -> list[bytes]:
        """A key of 16 bytes for each row."""
        return [b"\x00key-%09d\x00\x00" % number for number in range(self.count)]


ROWS = RowsWithZeros(3_000)
"""Several commits, which replace rows of each other."""

WRITING = [work for work in WORKS if work.reads == "rows" and work.name != "key-value scan"]
READING = [work for work in WORKS if work not in WRITING]
VERSIONED = [work for work in WRITING if work.name.startswith("versioned")]
NAMING = [work for work in WRITING if "window" in work.name or "session" in work.name]


def named(work: Work) -> str:
    """Return the id of a test."""
    return work.name.replace(" ", "-")


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None,
    reason="Kafka Streams' stores need a JDK and Maven",
)
def test_both_sides_find_the_same() -> None:
    """A group whose cases give different sums has no figures, so each must have some."""
    measured = {
        group.name: {case.name: case.wall for case in measure(group, TINY, lambda: None)}
        for group in groups(TINY)
    }

    assert len(measured) == 15
    assert all(len(cases[KAFKA]) == TINY.rounds for cases in measured.values())
    assert all(times[0] > 0 for cases in measured.values() for times in cases.values())


def test_without_java_the_comparison_is_skipped_by_name(tmp_path: Path) -> None:
    """And the command is none the worse: whoever has no Java gets every other benchmark."""
    said = run(_COMMAND, tmp_path, "--scale", "tiny", "--kafka-stores")

    assert said.returncode == 0, said.stderr
    assert "skipped: Kafka Streams' stores" in said.stderr


class TestFloors:
    """A floor that wrote or read something else would be a bound of something else."""

    @pytest.mark.parametrize("work", WRITING, ids=named)
    def test_it_leaves_the_rows_that_ours_leaves(self, work: Work, tmp_path: Path) -> None:
        """Floors of windows and sessions left a zero byte in a key as it is, which ours escapes.

        None of the benchmark's keys holds one, but each of them must be looked at.
        """
        ours, floor = content(work.way, tmp_path / "ours"), content(work.floor, tmp_path / "floor")

        assert len(ours[DATA]) > 0
        assert floor[DATA] == ours[DATA]

    @pytest.mark.parametrize("work", VERSIONED, ids=named)
    def test_it_leaves_the_superseded_versions(self, work: Work, tmp_path: Path) -> None:
        """Of versions too, where the key stands before the time that a version starts at."""
        ours, floor = content(work.way, tmp_path / "ours"), content(work.floor, tmp_path / "floor")

        assert len(ours[HISTORY]) == (VERSIONS - 1) * ROWS.few
        assert floor[HISTORY] == ours[HISTORY]

    @pytest.mark.parametrize("work", NAMING, ids=named)
    def test_it_names_as_many_rows(self, work: Work, tmp_path: Path) -> None:
        """In as many rows of the index, and in as many bytes but for what stands before them."""
        ours, floor = content(work.way, tmp_path / "ours"), content(work.floor, tmp_path / "floor")

        assert len(floor[HISTORY]) == len(ours[HISTORY]) > 0
        heads = size(ours[HISTORY]) - size(floor[HISTORY])
        assert 0 <= heads <= MOST_HEAD_BYTES * len(ours[HISTORY])

    @pytest.mark.parametrize("work", READING, ids=named)
    def test_it_finds_what_ours_finds(self, work: Work, tmp_path: Path) -> None:
        """By the sum that a run compares, which needs no Java here."""
        assert answer(work.floor, tmp_path / "floor") == answer(work.way, tmp_path / "ours")


def answer(way: Way, directory: Path) -> object:
    """Return what a round of *way* sums up."""
    directory.mkdir()
    with way(ROWS, {}, directory) as timed:
        outcome = timed()
    assert isinstance(outcome, Outcome)
    assert outcome.answer is not None
    return outcome.answer()


def content(way: Way, directory: Path) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Return the rows of both namespaces that a round of *way* leaves."""
    answer(way, directory)
    (database,) = directory.rglob("CURRENT")
    engine = RocksDBEngine.open(database.parent)
    try:
        return {
            DATA: list(engine.scan(DATA, HISTORY)),
            HISTORY: list(engine.scan(HISTORY, END)),
        }
    finally:
        engine.close()


def size(rows: list[tuple[bytes, bytes]]) -> int:
    """Return the bytes of keys and values."""
    return sum(len(key) + len(value) for key, value in rows)
