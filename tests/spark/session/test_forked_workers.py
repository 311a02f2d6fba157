"""Processes that Spark forks, and that its user does: threads of drivers stay with the parent.

A process that was forked from one which had used RocksDB, LevelDB or an object store is refused
them (ENG-44, OBJ-52). Spark forks each worker from a daemon; so no daemon may have used one.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import pyspark_threads_worker
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark_threads_worker import PlannedByUse, told_by_tasks

KIT = Path(__file__).parent / "kit"
DRIVERS = Path(__file__).parents[1] / "kit"

_DRIVERS = ["RocksDB", "LevelDB", "obstore"]
_DONE = dict.fromkeys(_DRIVERS, "done")
_PATIENCE_SECONDS = 60.0
_SECRET = b"between Java and its daemon"
_TASKS = 6
_KEYS = 40

_SPARKS_OWN = "pyspark.daemon"
_OURS = "statestores.spark.worker_daemon"


@pytest.fixture(autouse=True)
def _drivers() -> None:
    """Skip where one is not installed."""
    for module in ("rocksdict", "plyvel", "obstore"):
        pytest.importorskip(module)


class Daemon:
    """A daemon that forks workers, and what Java says to it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        """Talk to *process*, which has just begun."""
        assert process.stdout is not None
        self._port = _integer(process.stdout)

    @contextmanager
    def worker(self) -> Iterator["Worker"]:
        """Give a worker that was forked just now."""
        with (
            socket.create_connection(("127.0.0.1", self._port), _PATIENCE_SECONDS) as connection,
            connection.makefile("rb") as answers,
        ):
            process = _integer(answers)
            connection.sendall(len(_SECRET).to_bytes(4, "big") + _SECRET)
            assert answers.read(_integer(answers)) == b"ok"
            yield Worker(process, connection, answers)


class Worker:
    """A worker, and what Java says to it."""

    def __init__(self, process: int, connection: socket.socket, answers: BinaryIO) -> None:
        """Talk to *process* by the *connection*, whose other direction is *answers*."""
        self.process = process
        """Its id."""
        self._connection = connection
        self._answers = answers

    def told(self) -> dict[str, Any]:
        """Have it do a task; return what it tells."""
        self._connection.sendall(b".")
        told: dict[str, Any] = json.loads(self._answers.readline())
        return told


def _integer(answers: IO[bytes]) -> int:
    return int.from_bytes(answers.read(4), "big")


@contextmanager
def _daemon(module: str, *, reuses: bool) -> Iterator[Daemon]:
    """Start the daemon *module* as Java does."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("SPARK_REUSE_WORKER", "PYTHON_UNIX_DOMAIN_ENABLED")
    }
    environment |= {
        "PYTHON_WORKER_FACTORY_SECRET": _SECRET.decode(),
        "PYTHONPATH": os.pathsep.join([str(KIT), os.environ.get("PYTHONPATH", "")]),
    }
    if reuses:
        environment["SPARK_REUSE_WORKER"] = "1"
    with subprocess.Popen(
        [sys.executable, "-m", module, "pyspark_threads_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        yield Daemon(process)
        assert process.stdin is not None
        process.stdin.close()  # so Java ends it


@pytest.mark.spec("ENG-44", "OBJ-52")
@pytest.mark.parametrize("reuses", [False, True], ids=["used once", "reused"])
@pytest.mark.parametrize("module", [_SPARKS_OWN, _OURS])
def test_a_worker_may_use_what_has_threads(module: str, reuses: bool) -> None:
    """The daemon has used nothing, whatever workers before have done, or the same one has.

    Ours has imported what our readers and writers need; Spark's own has not.
    """
    with _daemon(module, reuses=reuses) as daemon:
        for _ in range(2):
            with daemon.worker() as worker:
                for _ in range(2 if reuses else 1):
                    assert worker.told() == {
                        "process": worker.process,
                        "is_prepared": module == _OURS,
                        "drivers": _DONE,
                    }


@pytest.mark.spec("ENG-44", "OBJ-52")
def test_a_worker_of_a_daemon_that_has_used_them_is_told() -> None:
    """Somebody's daemon looks something up before it forks: each task says so, and none hangs."""
    with _daemon("early_daemon", reuses=True) as daemon, daemon.worker() as worker:
        for _ in range(2):
            told = worker.told()

            assert told["process"] == worker.process
            assert list(told["drivers"]) == _DRIVERS
            for name, answer in told["drivers"].items():
                assert f"was forked from one that had used {name}" in answer


@pytest.mark.long  # the daemons say the same without a session
def test_tasks_and_planners_of_a_session_may_use_them(
    spark: SparkSession, subtests: pytest.Subtests
) -> None:
    """The workers of the tests are ours, which do several tasks, and the planners are Spark's."""
    cloudpickle.register_pickle_by_value(pyspark_threads_worker)  # type: ignore[no-untyped-call]  # Spark's
    with subtests.test("workers"):
        assert spark.conf.get("spark.python.daemon.module") == _OURS
        told = spark.sparkContext.range(_TASKS, numSlices=_TASKS).mapPartitions(told_by_tasks)
        processes, drivers = zip(*told.collect(), strict=True)
        assert drivers == (_DONE,) * _TASKS
        assert len({*processes}) < _TASKS
    spark.dataSource.register(PlannedByUse)
    with subtests.test("planners"):
        for _ in range(2):
            (column,) = spark.read.format("planned_by_use").load().columns
            assert json.loads(column) == _DONE


@pytest.mark.long  # the suite and tests/object_log fork without a session
@pytest.mark.spec("COM-44", "ENG-44", "OBJ-52")
def test_a_pool_of_a_driver_is_told_or_reads_what_is_there(tmp_path: Path) -> None:
    """A pool of `multiprocessing`, forked by a program that has a session and has read its state.

    What was asked of it hung: RocksDB as it was closed, and each request to an object store.
    """
    done = subprocess.run(
        [sys.executable, str(DRIVERS / "forking_driver.py"), str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS * 4,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])

    assert told["read by the parent"] == told["read by a child"] == _KEYS
    for name in ("RocksDB", "obstore"):
        assert f"was forked from one that had used {name}" in told[name]
        assert "by 'spawn'" in told[name]
    assert "belongs to the process" in told["what the parent has open"]
    assert told["read by the parent afterwards"] == _KEYS
