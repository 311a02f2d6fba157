"""Kills as tests of the author's class."""

from pathlib import Path

import pytest

from statestores.spi import Engine
from statestores_conformance.crash import run_kills
from statestores_conformance.crash_workload import WORKLOADS
from statestores_conformance.engine_locks import import_path_of
from statestores_conformance.engines import EngineFixtures, OpenEngine
from statestores_conformance.intensity import seed, trials
from statestores_conformance.openers import options_of

_KILLS = trials(10, least=2)
_SOAK_KILLS = 100
_SEED = seed(1035)
_TIMES = 1
_SOAK_TIMES = 20
"""How often a process reaches a failpoint before it dies there, at most."""


@pytest.mark.level("crash-proof")
class EngineCrashTests(EngineFixtures):
    """Both kinds over the engine, in processes that are killed.

    The engine's class has to be importable, and its options are those that `options_of` finds.
    """

    @pytest.mark.spec("COM-2", "COM-22", "ENG-7", "ENG-27", "ENG-8", "COM-10", "VRS-13", "VRS-28")
    @pytest.mark.parametrize("kind", WORKLOADS)
    def test_a_killed_process_leaves_exactly_a_commit(
        self, persistent_engine: Engine, open_engine: OpenEngine, kind: str, tmp_path: Path
    ) -> None:
        """Killed at any moment: content, offset and position are of one commit, the last one."""
        report = run_kills(
            import_path_of(persistent_engine),
            _KILLS,
            _SEED,
            kind=kind,
            root=tmp_path,
            options=options_of(open_engine),
        )

        assert report.violations == []
        assert len(report.kills) == _KILLS

    @pytest.mark.spec("COM-2", "COM-22", "ENG-7", "ENG-8", "COM-10", "VRS-13")
    @pytest.mark.parametrize("kind", WORKLOADS)
    def test_a_process_killed_at_a_failpoint_leaves_exactly_a_commit(
        self, persistent_engine: Engine, open_engine: OpenEngine, kind: str, tmp_path: Path
    ) -> None:
        """Killed just before the engine has a commit, or just after: it has none of it, or all."""
        self._kill_at_failpoints(persistent_engine, open_engine, kind, tmp_path, _TIMES)

    @staticmethod
    def _kill_at_failpoints(
        engine: Engine, open_engine: OpenEngine, kind: str, root: Path, times: int
    ) -> None:
        failpoints = WORKLOADS[kind].failpoints
        kills = times * len(failpoints)
        report = run_kills(
            import_path_of(engine),
            kills,
            _SEED,
            kind=kind,
            root=root,
            options=options_of(open_engine),
            failpoints=failpoints,
        )

        assert report.violations == []
        assert [kill.failpoint for kill in report.kills] == list(failpoints) * times

    @pytest.mark.soak
    @pytest.mark.spec("COM-2", "COM-22", "ENG-7", "ENG-27")
    @pytest.mark.parametrize("kind", WORKLOADS)
    def test_many_killed_processes_leave_exactly_a_commit(
        self, persistent_engine: Engine, open_engine: OpenEngine, kind: str, tmp_path: Path
    ) -> None:
        """The same, long enough to meet the rare moments."""
        report = run_kills(
            import_path_of(persistent_engine),
            _SOAK_KILLS,
            _SEED + 1,
            kind=kind,
            root=tmp_path,
            options=options_of(open_engine),
        )

        assert report.violations == []
        assert len(report.kills) == _SOAK_KILLS

    @pytest.mark.soak
    @pytest.mark.spec("COM-2", "COM-22", "ENG-7", "ENG-8")
    @pytest.mark.parametrize("kind", WORKLOADS)
    def test_many_processes_killed_at_failpoints_leave_exactly_a_commit(
        self, persistent_engine: Engine, open_engine: OpenEngine, kind: str, tmp_path: Path
    ) -> None:
        """The same for later and later times."""
        self._kill_at_failpoints(persistent_engine, open_engine, kind, tmp_path, _SOAK_TIMES)
