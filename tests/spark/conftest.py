"""One real local session for all Spark tests: starting it costs more than most of them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import DataFrame, SparkSession

from statestores.spark import ensure_java

# What programs that the tests start import as well.
sys.path.append(str(Path(__file__).parent / "kit"))

from forked_pythons import forked_pythons  # of the kit, after the path to it
from rated_orders import HISTORY, ORDERS, add_versions

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores, which repeats a failed task, as a cluster does."""
    ensure_java()
    directory = tmp_path_factory.mktemp("warehouse")
    with forked_pythons(directory) as variables, pytest.MonkeyPatch.context() as names:
        _ask_for_each_name_once(names)
        with pytest.MonkeyPatch.context() as patch:  # what Java has, its Pythons have
            for name, value in variables.items():
                patch.setenv(name, value)
            session = _session(directory / "tables")
        session.sparkContext.setLogLevel("FATAL")
        _start_fewer_programs(session)
        _keep_no_pages(session)
        yield session
        session.stop()


def _session(warehouse: Path) -> SparkSession:
    return (
        SparkSession.builder.master("local[2,3]")
        .appName("statestores tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # No query of a test lives long enough to be worth compiling.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Nobody looks at the page for which each plan is written out.
        .config("spark.sql.ui.explainMode", "simple")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        # The programs that tests start have Spark's own.
        .config("spark.python.daemon.module", "statestores.spark.worker_daemon")
        .getOrCreate()
    )


def _ask_for_each_name_once(patch: pytest.MonkeyPatch) -> None:
    """Have py4j remember what is a package, and what a class.

    It asks Java for each part of ``org.apache.spark.sql.X`` each time that one is named, and Java
    looks for a class of such a name in 280 archives: 3 ms of the processor for a class.
    """
    for kind in (JVMView, JavaPackage):
        patch.setattr(kind, "__getattr__", _remembered(kind.__getattr__))


def _remembered(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def get(owner: Any, name: str) -> Any:
        found = ask(owner, name)
        if isinstance(found, JavaClass | JavaPackage):
            vars(owner)[name] = found
        return found

    return get


def _start_fewer_programs(session: SparkSession) -> None:
    """Spare micro-batches most of a hundred programs.

    Hadoop starts one to give a file its mode, and another to see whether it is a link. So none is
    written with the checksum of another, and the manager of checkpoints is the one that does not
    ask for links, as Spark's own choice does. Older Sparks have it in another package.
    """
    context: Any = session.sparkContext
    settings = context._jsc.hadoopConfiguration()
    local = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(settings)
    local.setWriteChecksum(False)
    local.setVerifyChecksum(False)
    streaming = context._jvm.org.apache.spark.sql.execution.streaming
    for package in (streaming.checkpointing, streaming):
        manager = package.FileSystemBasedCheckpointFileManager
        if isinstance(manager, JavaClass):
            session.conf.set("spark.sql.streaming.checkpointFileManagerClass", manager._fqn)
            return
    raise AssertionError("Spark has no FileSystemBasedCheckpointFileManager where it was")


def _keep_no_pages(session: SparkSession) -> None:
    """Have Spark note nothing for its pages, which nobody looks at.

    That is who has made an RDD, found in a stack trace each time; its scope, as JSON; and all that
    jobs, tasks and queries report of themselves.
    """
    context: Any = session.sparkContext
    for name in ("callSite.short", "callSite.long", "spark.rdd.scope.noOverride"):
        context.setLocalProperty(name, "of a test")
    state = session._jsparkSession.sharedState()
    for found in (context._jsc.sc().statusStore().listener(), state.statusStore().listener()):
        if found.isDefined():
            context._jsc.sc().removeSparkListener(found.get())


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A path at which there is nothing yet."""
    return str(tmp_path / "state")


@pytest.fixture
def rows_of() -> Callable[[DataFrame], Rows]:
    """Return the rows of a DataFrame, in order of all of their columns."""

    def collect(frame: DataFrame) -> Rows:
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    return collect


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    """A state root with rates that change."""
    add_versions(tmp_path / "state", HISTORY)
    return tmp_path / "state"


@pytest.fixture
def orders(spark: SparkSession) -> DataFrame:
    """The orders to join with them as a batch, in a partition for each core."""
    return spark.createDataFrame(ORDERS, "key string, time_ms long")
