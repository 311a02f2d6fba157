"""The crash kit itself: it finds what it is there to find, and says what happened."""

from pathlib import Path

import pytest

from statestores_conformance.faults.crash import CrashKitError, run_kills

pytest.importorskip("rocksdict")

_KILLS = 10
_ATTEMPTS = 4
"""A kill has to meet the moment in which the engine is wrong: one run nearly always does."""


@pytest.fixture(autouse=True)
def _broken_engines_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and those that are killed import `broken_engines`."""
    here = str(Path(__file__).parent / "kit")
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", here)


@pytest.mark.parametrize(
    "engine",
    [
        "TearingEngine",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("OffsetFirstEngine", "LateEngine", "ForgetfulEngine")
        ),
    ],
)
def test_a_broken_engine_is_caught(engine: str, tmp_path: Path) -> None:
    """Torn, reordered, late and forgotten batches all show as violations."""
    violations: list[str] = []
    for seed in range(_ATTEMPTS):
        violations += run_kills(
            f"broken_engines:{engine}", _KILLS, seed=seed, root=tmp_path
        ).violations
        if violations:
            break

    assert violations


def test_the_same_seed_gives_the_same_operations(tmp_path: Path) -> None:
    """What a report says of an offset can be repeated: it is a function of seed and offset."""
    first = run_kills("rocksdb", 3, seed=7, kind="versioned", root=tmp_path)
    second = run_kills("rocksdb", 3, seed=7, kind="versioned", root=tmp_path)

    assert [kill.seed for kill in first.kills] == [kill.seed for kill in second.kills]
    assert first.violations == second.violations == []


def test_every_counted_kill_came_after_a_commit(tmp_path: Path) -> None:
    """A process that is killed before its first promise would prove nothing."""
    report = run_kills("rocksdb", 5, seed=3, root=tmp_path)

    assert all(kill.promised is not None for kill in report.kills)
    assert [kill.committed in (kill.promised, kill.under_way) for kill in report.kills] == [
        True
    ] * 5


@pytest.mark.parametrize("engine", ["OffsetFirstEngine", "LateEngine"])
def test_a_failpoint_meets_the_moment_without_luck(engine: str, tmp_path: Path) -> None:
    """An engine that is late is caught by the first kill after its batch, whatever the seed."""
    report = run_kills(
        f"broken_engines:{engine}",
        3,
        seed=1,
        root=tmp_path,
        failpoints=["commit.apply.after"],
    )

    assert bool(report.violations) == (engine == "LateEngine")


def test_a_failpoint_that_is_never_reached_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill that did not happen proves nothing, and says so."""
    monkeypatch.setattr("statestores_conformance.faults.crash._PATIENCE_SECONDS", 0.2)
    with pytest.raises(CrashKitError, match=r"never reached 'snapshot\.durable'"):
        run_kills("rocksdb", 1, seed=1, root=tmp_path, failpoints=["snapshot.durable"])


def test_a_process_that_fails_is_reported_with_its_error(tmp_path: Path) -> None:
    """An option that the backend does not know ends the process: that is no kill."""
    with pytest.raises(CrashKitError, match="no_such_option"):
        run_kills("rocksdb", 1, seed=1, options={"no_such_option": "1"}, root=tmp_path)
