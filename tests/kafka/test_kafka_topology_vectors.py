"""What Kafka Streams answers, answered on a broker, over stores restored for each batch."""

from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from kafka_cluster import TestCluster

from statestores_conformance.topology_vectors import differences, load
from statestores_conformance.topology_vectors.__main__ import main

CASES = [
    path
    for path in sorted(
        Path(str(files("statestores_conformance.topology_vectors") / "cases")).glob("*")
    )
    if not path.stem.startswith("task_order.")
]


def _runs(path: Path) -> int:
    """Return how many runs a case takes that is cut where its topic changes, or in two."""
    given = [each.get("topic") for each in load(path)["input"]]
    return max(2, 1 + sum(bool(one != other) for one, other in pairwise(given)))


_AT_A_TIME = 4
_FAMILIES: dict[str, Path] = {}
"""One case of each family: the last of those with the fewest runs."""

for _path in CASES:
    _family = _path.stem.partition(".")[0]
    if _family not in _FAMILIES or _runs(_path) <= _runs(_FAMILIES[_family]):
        _FAMILIES[_family] = _path


@pytest.mark.spec("KFK-8", "KFK-10", "KFK-16")
def test_a_case_of_each_family(cluster: TestCluster, tmp_path: Path) -> None:
    """A part of the input, then the rest over what the changelogs say.

    Several at a time, since a run on a cluster waits more than it works.
    """

    def found(family: str) -> list[str]:
        case = load(_FAMILIES[family])
        is_cut_anyway = len({each.get("topic") for each in case["input"]}) > 1
        return differences(
            case,
            batch=0 if is_cut_anyway else (len(case["input"]) + 1) // 2,
            directory=tmp_path / family,
            runner="kafka",
            bootstrap_servers=cluster.address,
        )

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        wrong = dict(zip(_FAMILIES, pool.map(found, _FAMILIES), strict=True))

    assert {family: lines for family, lines in wrong.items() if lines} == {}


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.spec("KFK-8", "KFK-10", "KFK-16")
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case(cluster: TestCluster, path: Path, batch: int) -> None:
    """All input at once, and a restored run for each record."""
    found = differences(load(path), batch=batch, runner="kafka", bootstrap_servers=cluster.address)

    assert found == []


def test_the_command_wants_a_broker() -> None:
    """A cluster that nobody named is not guessed, and a name without use is not taken."""
    for wrong in (["--runner", "kafka"], ["--bootstrap", "host:1"]):
        with pytest.raises(SystemExit) as told:
            main(wrong)

        assert told.value.code == 2
