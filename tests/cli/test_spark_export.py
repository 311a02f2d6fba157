"""The command `export-spark`: a checkpoint, what is said of it, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Run: TypeAlias = Callable[..., Any]


def test_it_says_what_it_has_written(root: Path, tmp_path: Path, succeed: Run) -> None:
    """For people and for programs."""
    first, second = tmp_path / "first", tmp_path / "second"
    outcome = succeed("export-spark", root, first, "--store", "counts")
    document = succeed("export-spark", root / "counts", second, "--every", 1, "--json").document

    assert outcome.out == f"50 changes of 'counts' in 1 batches, partitions: 1: {first}\n"
    assert document == {
        "store": "counts",
        "path": str(second),
        "partitions": 1,
        "batches": 1,
        "changes": 50,
    }
    assert (second / "state" / "0" / "0" / "1.delta").is_file()


def test_batches_are_cut_as_asked(root: Path, tmp_path: Path, succeed: Run) -> None:
    """By commits, or into so many; an offset makes the first one content."""
    every = succeed("export-spark", root / "planes", tmp_path / "1", "--every", 2, "--json")
    most = succeed("export-spark", root / "planes", tmp_path / "2", "--batches", 2, "--json")
    later = succeed(
        *("export-spark", root / "planes", tmp_path / "3", "--from-offset", 5),
        *("--every", 1, "--snapshot-every", 2, "--raw", "--json"),
    )

    assert (every.document["batches"], most.document["batches"]) == (3, 2)
    assert later.document["batches"] >= 3
    assert (tmp_path / "3" / "state" / "0" / "0" / "2.snapshot").is_file()


def test_what_cannot_be_is_one_sentence(root: Path, tmp_path: Path, run: Run) -> None:
    """And nothing is written."""
    there = run("export-spark", root / "counts", root)
    both = run("export-spark", root / "counts", tmp_path / "x", "--every", 1, "--batches", 1)
    partition = run("export-spark", root / "counts" / "0", tmp_path / "x")
    several = run("export-spark", root, tmp_path / "x")

    assert (there.code, both.code, partition.code, several.code) == (2, 2, 2, 2)
    assert "exists, and an export makes a new directory" in there.err
    assert "give batches or every, not both" in both.err
    assert "is no state root and no store of one" in partition.err
    assert "name one with --store" in several.err
    assert not (tmp_path / "x").exists()
