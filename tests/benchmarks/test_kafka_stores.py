"""Kafka Streams' own stores as a peer: they do the same work, and are left out without Java."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rocksdict", reason="the driver rocksdict is not installed")

# Behind the skip, since they import the driver.
from statestores_benchmarks.cases import TINY
from statestores_benchmarks.kafka_stores.groups import KAFKA, groups
from statestores_benchmarks.measurement import measure


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
    said = subprocess.run(
        [sys.executable, "-m", "statestores_benchmarks", "--scale", "tiny", "--kafka-stores"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr
    assert "skipped: Kafka Streams' stores" in said.stderr
