"""What Kafka Streams answers, answered by the test driver on every backend and in batches."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from statestores_conformance.topology_vectors import differences, load, overrides
from statestores_conformance.topology_vectors.__main__ import main

CASES = sorted(Path(str(files("statestores_conformance.topology_vectors") / "cases")).glob("*"))
BATCHES = (1, 2, 3, 0)


@pytest.mark.spec("PRC-9", "PRC-13", "PRC-14", "PRC-20", "PRC-21", "PRC-24", "PRC-25", "PRC-26")
@pytest.mark.spec("PRC-11", "PRC-32", "PRC-34", "PRC-35", "PRC-36", "PRC-38", "PRC-41", "PRC-45")
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "sqlite"])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_answers_as_kafka_streams_does(path: Path, backend: str) -> None:
    """Every case, at batch sizes 1, 2, 3 and all."""
    case = load(path)

    found = {batch: differences(case, backend=backend, batch=batch) for batch in BATCHES}

    assert {batch: lines for batch, lines in found.items() if lines} == {}


def test_overrides_are_of_cases_and_give_a_requirement() -> None:
    """Each says which rule decides, and differs from what Kafka answers."""
    for name, ours in overrides().items():
        case = json.loads((CASES[0].parent / f"{name}.json").read_text("utf-8"))

        assert ours["why"].startswith("PRC-")
        assert {**case["expected"], **ours["expected"]} != case["expected"]


def test_the_command_fails_when_a_case_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed expectation is told, and the exit code is not 0."""
    case = json.loads((CASES[0].parent / "stateless.filter.json").read_text("utf-8"))
    (tmp_path / "good.json").write_text(json.dumps(case), "utf-8")
    good = main([str(tmp_path)])
    case["expected"]["output"].pop()
    (tmp_path / "bad.json").write_text(json.dumps(case), "utf-8")
    bad = main([str(tmp_path), "--batch", "2"])

    assert (good, bad) == (0, 1)
    assert "bad: out:" in capsys.readouterr().out


def test_a_directory_without_cases_is_refused(tmp_path: Path) -> None:
    """Nothing run is not everything right."""
    assert main([str(tmp_path)]) == 2


def test_no_case_is_missing() -> None:
    """All that came are there."""
    assert len(CASES) == 62
