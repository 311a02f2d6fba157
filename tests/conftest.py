"""What every test of the repository shares: profiles, soak runs, required backends, descriptors."""

import gc
import itertools
import os
import re
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from statestores.errors import StateStoreError
from statestores.registry import load_backend

# What tests of several directories import, and tools, by the name of their file.
sys.path.append(str(Path(__file__).parent / "kit"))
sys.path.append(str(Path(__file__).parent / "serving" / "kit"))
sys.path.append(str(Path(__file__).parents[1] / "tools"))

# isort: split
from forked_workers import ForkedWorkers
from interrupts import hear_interrupts
from long_runs import IS_LONG, IS_SOAK, LEFT_OUT, is_named, leave_out
from open_files import DESCRIPTORS, open_files
from short_collection import ShortCollection
from spark_home import spark_home

# A Spark session, a wheel, an environment cost seconds: the tests of one file share them.
_SHARED_PREPARATIONS = (
    "tests/conformance/test_mutants.py",
    "tests/conformance/test_opt_in.py",
    "tests/conformance/test_runner.py",
    "tests/examples/",
    "tests/packaging/",
    "tests/spark/",
)

_KAFKA = "tests/kafka/"
"""One worker runs these, but for those of `_KAFKA_APART`."""

_KAFKA_APART = ("tests/kafka/failures/", "tests/kafka/group/")
"""Another worker runs these, over the same broker: most of their time they wait for it, and all
others would wait for a single worker at the end."""

_SPARK = ("tests/spark/", "tests/examples/")
_WITHOUT_SESSION = (
    "tests/examples/",
    "tests/spark/objects/test_object_cluster.py",
    "tests/spark/objects/test_resharded_operator_on_s3.py",
    "tests/spark/session/test_interrupted_launch.py",
    "tests/spark/stateful/test_resharded_objects.py",
    "tests/spark/stateful/test_stateful_crashes.py",
    "tests/spark/stateful/test_stateful_lost.py",
    "tests/spark/stateful/test_stateful_objects.py",
    "tests/spark/stateful/test_stateful_steps.py",
    "tests/spark/topology/test_chain.py",
    "tests/spark/topology/test_chain_objects.py",
    "tests/spark/topology/test_killed_driver.py",
)
"""Tests of Spark that any worker may run: they need no session, or a program of their own has it.
One worker runs the others, in the one session that is warmed up."""

_CRASH = ("tests/faults/", "Crash", "kill")
_NOT_QUICK = (
    "tests/arrow/restoring/test_bulk_restore",
    "tests/arrow/restoring/test_folded_restore.py",
    "tests/arrow/restoring/test_restore.py",
    "tests/arrow/restoring/test_waiting_changes.py",
    "tests/arrow/test_memory.py",
    "tests/arrow/test_restore_of_each_kind.py",
    "tests/backends/test_closing.py",
    "tests/backends/test_memory_budget.py",
    "tests/backends/test_postgresql",
    "tests/backends/test_rocksdb_views.py",
    "tests/benchmarks/",
    "tests/changelog/test_damage.py",
    "tests/changelog/test_log_reader.py",
    "tests/cli/test_every_kind.py",
    "tests/cli/test_interrupted_commands.py",
    "tests/cli/test_new_backend.py",
    "tests/cli/test_processes.py",
    "tests/cli/test_progress.py",
    "tests/cli/test_transfer.py",
    "tests/cli/test_verify.py",
    "tests/conformance/",
    "tests/logged_store/test_every_kind.py",
    "tests/metamorphic/",
    "tests/migration/test_kafka_import.py",
    "tests/migration/test_kafka_state.py",
    "tests/object_log/test_explorer.py",
    "tests/object_log/test_s3.py",
    "tests/object_log/test_s3_reshard.py",
    "tests/object_log/test_s3_snapshots.py",
    "tests/object_log/tasks/test_task_explorer.py",
    "tests/packaging/",
    "tests/processing/local/test_lost_files.py",
    "tests/processing/local/test_placement.py",
    "tests/processing/local/test_retention.py",
    "tests/processing/local/test_runner.py",
    "tests/processing/local/test_sinks.py",
    "tests/processing/local/test_sources.py",
    "tests/processing/models/",
    "tests/processing/random_topologies/",
    "tests/processing/sharing/",
    "tests/processing/columns/test_join_columns.py",
    "tests/processing/columns/test_several_partitions.py",
    "tests/processing/test_topology_vectors.py",
    "tests/query/test_composite_stores.py",
    "tests/reading/test_key_shares.py",
    "tests/reading/test_partition_reader.py",
    "tests/resharding/test_in_objects.py",
    "tests/resharding/test_reshard.py",
    "tests/semantics/retained/index/test_model.py",
    "tests/semantics/expiry/test_due_rows.py",
    "tests/semantics/expiry/test_retention_space.py",
    "tests/semantics/retained/test_window_model.py",
    "tests/serving/test_page.py",
    "tests/spec/test_kinds.py",
    "tests/tasks/standbys/test_standby_schedule.py",
    "Model",
)
"""What the identifiers of tests have that are of a marker; the rest is `unit`. A file is here once
it takes three seconds of the processor, or waits as long for a process or a server."""

_WITHOUT_UNIT_TESTS = tuple(
    part for part in (*_SPARK, _KAFKA, *_CRASH, *_NOT_QUICK) if part.startswith("tests/")
)
"""The directories and files of which every test has another marker than `unit`."""

_SLOW = (
    *_SHARED_PREPARATIONS,
    _KAFKA,
    "tests/benchmarks/",
    "tests/faults/",
    "Crash",
    "kill",
    "Model",
)
"""What the identifiers of tests have that take seconds, or share a class with such."""

_FIRST = (_KAFKA, "tests/spark/topology/", "tests/spark/objects/")
"""Where those of the long ones are that one worker has to run one after the other and that wait for
other processes most of their time: the other workers have the processors meanwhile."""

_WAITING = (
    "tests/packaging/test_third_party_backend.py",
    "tests/conformance/test_runner.py",
    "tests/examples/test_nycflights.py",
)
"""Files that wait for other processes most of their time, too. Beside those of Kafka the processors
would be idle, so they come later, while much is left that does not wait."""

_EXAMPLES = 100 if IS_LONG else 25
"""Of each random test: a quarter of Hypothesis's own number, since CI draws the same ones in every
run. A long run draws as many as Hypothesis would, a soak run twenty times that, and the conformance
suite over the built-in backends fewer than each (tests/conformance/conftest.py)."""

_GARBAGE = 20_000
"""Objects more than before with which garbage is looked for."""

_FAILED = pytest.StashKey[bool]()
_NUMBERS = itertools.count()


def _register_hypothesis_profiles() -> None:
    """Register how random tests run, and choose by HYPOTHESIS_PROFILE, soak and CI, in this order.

    No profile has a deadline: on a shared machine it would be a timing assert.
    """
    settings.register_profile(
        "default",
        deadline=None,
        max_examples=_EXAMPLES,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    # Under CI a red run is about the change, not about luck. Luck has the soak run.
    settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
    settings.register_profile(
        "soak", settings.get_profile("default"), max_examples=2_000, stateful_step_count=200
    )
    chosen = "soak" if IS_SOAK else "ci" if os.environ.get("CI") else "default"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", chosen))


def _check_required_backends() -> None:
    """Refuse to start when a backend that STATESTORES_REQUIRE_BACKENDS names cannot be loaded.

    Without the variable, the tests of an engine whose driver is missing are skipped by name. Where
    it is set, as it is in CI, such a skip would hide that nothing was tested.
    """
    required = os.environ.get("STATESTORES_REQUIRE_BACKENDS", "")
    failures = []
    for name in filter(None, map(str.strip, required.split(","))):
        try:
            load_backend(name)
        except StateStoreError as error:
            failures.append(f"  {name}: {error}")
    if failures:
        raise pytest.UsageError(
            f"STATESTORES_REQUIRE_BACKENDS={required} cannot be met:\n" + "\n".join(failures)
        )


def _let_spark_find_this_environment() -> None:
    """Make Spark start quickly, with this interpreter, and listen on this machine only.

    Left alone, it takes the first `python3` on PATH, which need not have pyarrow.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = spark_home()
    if home is not None:
        os.environ.setdefault("SPARK_HOME", str(home))
    # No session of a test lives long enough to be worth compiling well: a third of the CPU time.
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # Hadoop starts a program for each file that it makes (chmod, readlink), and Java 17 another one
    # that starts it: a fortieth of the processor.
    options += " -Djdk.lang.Process.launchMechanism=VFORK"
    archive = Path(sys.prefix) / "spark-classes.jsa"
    if archive.exists():
        # `make pytest` wrote it. One that does not fit is passed over in silence. Java 17 moves all
        # of it to a place that nobody can guess, unless told not to: a quarter of a second.
        options += f" -XX:SharedArchiveFile={archive} -Xlog:disable"
        options += " -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def _let_killed_processes_share_their_imports() -> None:
    """Name the modules that the crash kit imports once."""
    modules = ",".join(f"statestores_{name}" for name in ("leveldb", "rocksdb", "sqlite"))
    os.environ.setdefault("STATESTORES_CONFORMANCE_PRELOAD", modules)


def _let_processes_share_what_hypothesis_has_read(root: Path) -> None:
    """Name Hypothesis's directory of this checkout, wherever a process has its working directory.

    In a new one it parses every module of ours for constants first: a second of the processor.
    """
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(root / ".hypothesis"))


def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts()
    unit_alone = config.getoption("markexpr") == "unit"
    passed_over = _WITHOUT_UNIT_TESTS if unit_alone else ()
    # A test that is named and not run is shown to be left out.
    without = frozenset[str]() if is_named(config) else LEFT_OUT
    config.pluginmanager.register(ShortCollection(passed_over, without))
    # Programs of tests that run pytest themselves do so by one process.
    workers = int(os.environ.pop("STATESTORES_TEST_WORKERS", "1"))
    if workers > 1:
        forked = ForkedWorkers(workers, _scope_of, _choose)
        config.pluginmanager.register(forked, "forked_workers")
    _register_hypothesis_profiles()
    _let_killed_processes_share_their_imports()
    _let_processes_share_what_hypothesis_has_read(config.rootpath)
    _let_spark_find_this_environment()
    _check_required_backends()


def pytest_report_header() -> str:
    """Say which tests are not run."""
    marks = " and ".join(sorted(LEFT_OUT)) or "no"
    return f"left out: {marks} tests (CONTRIBUTING.md)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need, leave out those of longer runs, and begin with the slow ones.

    A slow one that is begun last would be waited for by all other workers.
    """
    for item in items:
        item.add_marker(_marker_of(item.nodeid))
        uses = getattr(item, "fixturenames", ())
        if "spark" in uses and item.nodeid.startswith(_WITHOUT_SESSION):
            raise pytest.UsageError(
                f"{item.nodeid} uses a session of Spark, and conftest.py lists its file among "
                "those that any worker may run; take it from _WITHOUT_SESSION"
            )
    leave_out(config, items)
    items.sort(key=lambda item: _turn_of(item.nodeid))


def _needs_session(identifier: str) -> bool:
    """Return whether tests of this identifier have a session of Spark in their process."""
    return identifier.startswith("tests/spark/") and not identifier.startswith(_WITHOUT_SESSION)


def _turn_of(identifier: str) -> int:
    """Return when the test *identifier* is begun: low numbers first."""
    if identifier.startswith(_FIRST):
        return next(at for at, scope in enumerate(_FIRST) if identifier.startswith(scope))
    if identifier.startswith(_WAITING):
        return len(_FIRST) + 1
    return len(_FIRST) + (0 if any(word in identifier for word in _SLOW) else 2)


def _marker_of(identifier: str) -> str:
    """Return the marker of the test *identifier* (`make test-quick` runs `unit`)."""
    if identifier.startswith(_SPARK):
        return "spark"
    if identifier.startswith(_KAFKA):
        return "kafka"
    if any(word in identifier for word in _CRASH):
        return "crash"
    return "suite" if any(word in identifier for word in _NOT_QUICK) else "unit"


def _scope_of(identifier: str) -> str:
    """Return what the test *identifier* is run with by one worker.

    A class of tests, or a file of those whose preparations take seconds.
    """
    if identifier.startswith(_KAFKA):
        return _KAFKA_APART[0] if identifier.startswith(_KAFKA_APART) else _KAFKA
    if identifier.startswith(_SHARED_PREPARATIONS):
        return identifier.partition("::")[0]
    return identifier.rpartition("::")[0]


def _choose(scopes: Iterable[str], worker: int) -> str | None:
    """Return which of *scopes* the *worker* runs next: in a session of Spark the first one alone.

    Each worker that has one of them starts a session, and warms it up.
    """
    left = list(scopes)
    has_session = worker == 0
    fitting = (scope for scope in left if _needs_session(scope) is has_session)
    return next(fitting, left[0] if left and has_session else None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the collector of garbage to come less often than after each 700 objects.

    It was a twentieth of what workers do. What there is now it leaves alone (`kept_collection`),
    garbage included: to find that first takes each worker two thirds of a second.

    Workers share what is forked for programs, where a test that was collected has any.
    """
    gc.set_threshold(_GARBAGE, 20, 20)
    programs = sys.modules.get("forked_programs")
    if programs is not None and session.config.pluginmanager.has_plugin("forked_workers"):
        programs.share_the_server()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, Any]:
    """Note that a test has failed: its directory is kept."""
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Give each test a directory, as pytest's own fixture does.

    That one leaves a link for each name, and reads all of them to number the next directory. Nor
    need it be looked at whether such a name leads elsewhere.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    path.mkdir(0o700)
    yield path
    if not request.node.stash.get(_FAILED, False):
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def little_garbage() -> None:
    """Have the collector pass over what there is, for the tests of a module that call it often.

    A worker has a million objects after some hundreds of tests, and takes 70 ms to look at them.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_descriptor_leaks() -> Iterator[None]:
    """Fail the test when it leaves a file open that was not open before.

    For the tests of engines and logs, by ``pytest.mark.usefixtures``: so it is set up before the
    fixtures that open something, and looks after they have closed it. Nothing is collected first:
    a file that only the garbage collector closes has not been closed. Sockets and pipes do not
    count; they belong to Spark and to subprocesses.
    """
    if not DESCRIPTORS.is_dir():
        pytest.skip(f"open files can be listed only where there is {DESCRIPTORS}")
    before = open_files()
    yield
    leaked = sorted(open_files() - before)

    assert leaked == []
