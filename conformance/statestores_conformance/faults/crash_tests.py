"""Kills as tests of the author's class."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from statestores.spi import Durability, Engine
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.faults.crash import run_kills
from statestores_conformance.faults.crash_workload import WORKLOADS
from statestores_conformance.intensity import seed, trials
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, Engines, OpenEngine, pairs_of
from statestores_conformance.subjects.openers import options_of

_KILLS = trials(10, least=2)
_SOAK_KILLS = 100
_SEED = seed(1035)
_TIMES = 1
_SOAK_TIMES = 20
"""How often, at most, a process reaches a failpoint before it dies there."""

_INGESTED = 5_000
_INGEST = """
import json, os, signal, sys
from statestores.registry import load_backend

name, path, options, count, killed_at = json.loads(sys.argv[1])
engine = load_backend(name).open(path, options)


def pairs():
    for number in range(count):
        if number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield b"%05d" % number, b"v"


engine.ingest(pairs())
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A program that is killed between two pairs that it ingests, or after the last."""


@pytest.mark.level("crash-proof")
class EngineCrashTests(EngineFixtures):
    """Every kind over the engine, in processes that get killed.

    The engine's class must be importable, and its options are those that `options_of` finds.
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

    @pytest.mark.spec("ENG-34", "ENG-7", "ENG-8")
    @pytest.mark.parametrize("killed_at", [1, _INGESTED // 2, _INGESTED])
    def test_a_process_killed_while_it_ingests_leaves_all_or_nothing(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, killed_at: int
    ) -> None:
        """Killed between two pairs, none is there; once `ingest` has returned, all are."""
        promised = persistent_engine.capabilities.bulk_ingest
        skip_unless_promised("bulk_ingest", made=promised)
        persistent_engine.apply({b"before": b"v"}, Durability.PROCESS_CRASH)
        persistent_engine.close()
        arguments = [
            import_path_of(persistent_engine),
            str(engines.path()),
            options_of(open_engine),
            _INGESTED,
            killed_at,
        ]
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _INGEST, json.dumps(arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        count = _INGESTED if killed_at == _INGESTED else 0
        expected = [(b"%05d" % number, b"v") for number in range(count)]

        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert pairs_of(engines.open()) == [*expected, (b"before", b"v")]

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
        """The same, with each failpoint reached more and more often."""
        self._kill_at_failpoints(persistent_engine, open_engine, kind, tmp_path, _SOAK_TIMES)
