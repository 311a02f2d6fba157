"""The workloads themselves, at sizes that say nothing about speed: that they run, and agree."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from statestores_benchmarks.cases import TINY, Case, Group, Scale, Timed
from statestores_benchmarks.measurement import measure

for driver in ("statestores_leveldb", "rocksdict", "pyarrow"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")

# Behind the skip, since they import the drivers.
from statestores_benchmarks.__main__ import chosen  # noqa: E402
from statestores_benchmarks.workloads import DETAILS, WORKLOADS  # noqa: E402

pytestmark = pytest.mark.usefixtures("little_garbage")

QUICK_ONES = ("contenders", "timestamped", "windows", "versions-per-key")
"""Workloads with peers: each runs in a second or so."""


def run(workload: str) -> None:
    """Run each group of *workload* once, in the order in which a run does."""
    for _, group in chosen(WORKLOADS, TINY, (workload,), ()):
        measured = measure(group, TINY, lambda: None)

        assert [found.name for found in measured] == [case.name for case in group.cases]
        for found in measured:
            assert len(found.wall) == (0 if found.absent else 1), found.name


@pytest.mark.parametrize("workload", QUICK_ONES)
def test_a_workload_with_peers_runs_whoever_is_there(workload: str) -> None:
    """Contenders that are installed give the same answers, or `measure` raises."""
    run(workload)


@pytest.mark.soak
@pytest.mark.parametrize("workload", sorted(set(WORKLOADS) - set(QUICK_ONES)))
def test_every_workload_runs(workload: str) -> None:
    """At tiny sizes, in some minutes together."""
    run(workload)


def test_details_are_workloads() -> None:
    """A name that was changed would bring the details back into a quick run."""
    assert set(WORKLOADS) >= DETAILS


class TestChoice:
    """Which groups are measured, by the beginnings of names."""

    @pytest.fixture
    def made(self) -> list[str]:
        """The workloads whose groups were made, which costs their data."""
        return []

    @pytest.fixture
    def workloads(self, made: list[str]) -> dict[str, "Made"]:
        """Two workloads with two groups each."""
        return {name: Made(name, made) for name in ("growth", "key-value")}

    def test_without_a_choice_everything_is_measured(self, workloads: dict[str, "Made"]) -> None:
        """In the order of the report."""
        assert names(workloads) == ["growth-a", "growth-b", "key-value-a", "key-value-b"]

    def test_a_workload_is_chosen_without_making_the_others(
        self, workloads: dict[str, "Made"], made: list[str]
    ) -> None:
        """Their data would take longer than what is asked for."""
        assert names(workloads, only=("growth",)) == ["growth-a", "growth-b"]
        assert made == ["growth"]

    def test_a_group_is_chosen_by_its_own_name(self, workloads: dict[str, "Made"]) -> None:
        """Whatever workload it is of."""
        assert names(workloads, only=("key-value-b",)) == ["key-value-b"]

    def test_what_is_skipped_is_neither_made_nor_measured(
        self, workloads: dict[str, "Made"], made: list[str]
    ) -> None:
        """A workload as a whole, or one of its groups."""
        assert names(workloads, skip=("growth", "key-value-a")) == ["key-value-b"]
        assert made == ["key-value"]


class Made:
    """A workload that notes that its groups were made."""

    def __init__(self, name: str, made: list[str]) -> None:
        self._name, self._made = name, made

    def __call__(self, scale: Scale) -> Iterator[Group]:
        """Yield two groups."""
        self._made.append(self._name)
        for letter in "ab":
            yield Group(
                name=f"{self._name}-{letter}",
                title="t",
                operations=1,
                cases=[Case("A", nothing_to_do)],
            )


def nothing_to_do(path: Path) -> AbstractContextManager[Timed]:
    """Never run: the choice is what is tested."""
    raise AssertionError(path)


def names(
    workloads: dict[str, Made], *, only: tuple[str, ...] = (), skip: tuple[str, ...] = ()
) -> list[str]:
    """Return the names of the chosen groups."""
    return [group.name for _, group in chosen(dict(workloads), TINY, only, skip)]
