"""A small cluster whose executors share an object store and nothing else, to be killed.

Run as a program: ROOT DIRECTORY OPTIONS LIFE, the latter two as JSON. It writes stores, unless they
are there, reads and joins them, and copies the changes of one into another, joined with a third, as
a stream of small micro-batches. Meanwhile it kills executors, and in the end, if it is to, itself
and its Java.

All waiting is for a state. Where Spark waits by a clock that a setting moves, that is moved out of
the way; where no setting does, what has failed is begun again.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyspark
import stateful_words
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from statestores.spark import ensure_java, temporal_join

ROWS_AT_ONCE = 20
WORDS = 7
"""How many words a stateful function counts."""

COUNTED = "-counted"
"""What the URL of the state root ends with that has the counts."""

RATES = (1_000, 2_000)
"""What the join adds to even and to odd numbers, so that a row says what it was joined with."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """What happens to one cluster."""

    rows: int
    """How many rows the store has that is copied, from the number 0 on."""

    first: int = 0
    """The first of them that is written in this life."""

    executors: int = 3
    """How many there are at a time."""

    executors_die_after: tuple[int, ...] = ()
    """Micro-batches of this life after which some are killed."""

    dying_at_once: int = 1
    """How many of them."""

    driver_dies_after: int | None = None
    """The micro-batch after which the program is killed; ``None`` when it ends as it should."""

    counts: bool = False
    """Whether a stateful function counts the rows as well, in a state root of its own beside."""


_PAUSE_SECONDS = 0.02
_SOON_SECONDS = 1.0
"""Within what time after a micro-batch one is killed: the next one is under way then."""

_LONGEST_SECONDS = 900
"""After this it hangs."""


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of the program, which works in *directory*."""
    home = directory / "spark-home"
    home.mkdir(exist_ok=True)
    for name in ("bin", "jars"):  # without the sources of PySpark, which Python would compile
        if not (home / name).is_symlink():
            (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Those of the tests' sessions, for executors as well.
        "JDK_JAVA_OPTIONS": os.environ["SPARK_SUBMIT_OPTS"],
    }


def session(life: Life, directory: Path) -> SparkSession:
    """Start the cluster, in which nothing is given up because this machine is slow."""
    ensure_java()
    cloudpickle.register_pickle_by_value(stateful_words)  # type: ignore[no-untyped-call]  # Spark's
    return (
        SparkSession.builder.master(f"local-cluster[{life.executors},1,1024]")
        .config("spark.executor.memory", "1024m")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(directory / "scratch"))
        .config("spark.python.daemon.module", "statestores.spark.worker_daemon")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")
        # What is killed is begun again, however often.
        .config("spark.task.maxFailures", "100")
        .config("spark.stage.maxConsecutiveAttempts", "100")
        .config("spark.deploy.maxExecutorRetries", "-1")
        # Executors and workers that are slow are not dead: who dies here closes its connections.
        .config("spark.network.timeout", "1200s")
        .config("spark.executor.heartbeatInterval", "60s")
        .config("spark.worker.timeout", "1200")
        .config("spark.python.authenticate.socketTimeout", "600s")
        .getOrCreate()
    )


class Feeds:
    """What is read and written, by the names of stores and options of the object store."""

    def __init__(self, spark: SparkSession, root: str, options: dict[str, str]) -> None:
        """Read and write the state root at the URL *root*."""
        self._spark = spark
        self._root = root
        self._options = options
        self._merged: dict[str, object] = {
            **json.loads(options["storageOptions"]),
            **json.loads(options["storageSecrets"]),
        }

    def fill(self, first: int, rows: int) -> None:
        """Write the words from *first* up to *rows*, and the rates if there are no words yet."""
        numbers = self._spark.range(first, rows, 1, 2)
        words = numbers.selectExpr("CAST(id AS string) AS key", "id AS value")
        self._write("words", words, {})
        if first == 0:
            self._write("rates", self._rates(), {"historyRetention": "3650d"})

    def _write(self, store: str, frame: DataFrame, more: dict[str, str]) -> None:
        writer = frame.write.format("statestores").mode("append")
        writer = writer.options(storeName=store, numPartitions=2, **more)
        writer.options(**self._options).save(self._root)

    def _rates(self) -> DataFrame:
        rows = [("0", RATES[0], 1_000), ("1", RATES[1], 1_000), ("1", -1, 9_000)]
        frame = self._spark.createDataFrame(rows, "key string, value long, valid_from long")
        return frame.coalesce(1)  # a task each would start a Python each

    def joined(self, frame: DataFrame) -> DataFrame:
        """Return the words in *frame*, with the rate of each added to its value."""
        asked = frame.selectExpr(
            "key", "value", "CAST(value % 2 AS string) AS currency", "5000L AS at_ms"
        )
        joined = temporal_join(
            asked,
            self._root,
            "rates",
            on="currency",
            at="at_ms",
            value_name="rate",
            storage_options=self._merged,
        )
        return joined.selectExpr("key", "value + rate AS value")

    def check(self, rows: int) -> None:
        """Accept what a batch reads and joins."""
        reader = self._spark.read.format("statestores").options(storeName="words", **self._options)
        found = {row.key: row.value for row in self.joined(reader.load(self._root)).collect()}
        assert found == expected_copies(rows)

    def _changes(self) -> DataFrame:
        return (
            self._spark.readStream.format("statestores")
            .options(storeName="words", readChangeFeed="true", maxRecordsPerTrigger=ROWS_AT_ONCE)
            .options(**self._options)
            .load(self._root)
        )

    def copy(self, checkpoint: Path) -> StreamingQuery:
        """Start to copy the changes of ``words`` into ``copies``, joined."""
        return (
            self.joined(self._changes())
            .writeStream.format("statestores")
            .options(storeName="copies", numPartitions=2, **self._options)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(self._root)
        )

    def count(self, checkpoint: Path) -> StreamingQuery:
        """Start to count the changes of ``words``."""
        words = self._changes().selectExpr(f"CAST(value % {WORDS} AS string) AS word")
        stream = stateful_words.word_count(
            words,
            checkpoint,
            state=f"{self._root}{COUNTED}",
            storage_options=self._merged,
            local_directory=None,
            backend="sqlite",
        )
        return stateful_words.start(stream, checkpoint)


def expected_copies(rows: int) -> dict[str, int]:
    """Return what *rows* words are once they are joined."""
    return {str(number): number + RATES[number % 2] for number in range(rows)}


class Running:
    """A query, started again where this machine has not let Spark start a Python in time."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        """Start it."""
        self._start = start
        self._query = start()
        self._before = 0
        self._deadline = time.monotonic() + _LONGEST_SECONDS

    def wait_for(self, batches: int) -> None:
        """Wait until it has ended so many micro-batches in this life, or all that there are."""
        while self._is_at_work and self._before + len(self._query.recentProgress) < batches:
            self._go_on()

    def end(self) -> None:
        """Wait until it has done everything."""
        while self._is_at_work:
            self._go_on()

    @property
    def _is_at_work(self) -> bool:
        return self._query.isActive or self._query.exception() is not None

    def _go_on(self) -> None:
        """Let it work; start it again if it was not let."""
        time.sleep(_PAUSE_SECONDS)
        assert time.monotonic() < self._deadline
        if (error := self._query.exception()) is not None:
            assert _NOT_STARTED in str(error), error
            print("started a query again", flush=True)  # noqa: T201  # the test shows it
            self._before += len(self._query.recentProgress)
            self._query = self._start()


_NOT_STARTED = "Python worker failed to connect back"
"""What Spark says when the Python of a streaming source took ten seconds to start: a constant."""


def executors() -> list[int]:
    """Return the processes of the executors of this program."""
    listing = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"],  # noqa: S607  # of this machine
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()[1:]]
    family, before = {os.getpid()}, 0
    while len(family) > before:
        before = len(family)
        family |= {int(pid) for pid, parent, _ in rows if int(parent) in family}
    return [int(pid) for pid, _, args in rows if int(pid) in family and _BACKEND in args]


_BACKEND = "CoarseGrainedExecutorBackend"


def kill_executors(count: int) -> None:
    """Kill any *count* of them, at any time soon; the cluster may just be starting some."""
    time.sleep(random.uniform(0, _SOON_SECONDS))
    deadline = time.monotonic() + _LONGEST_SECONDS
    while len(found := executors()) < count:
        assert time.monotonic() < deadline
        time.sleep(_PAUSE_SECONDS)
    for executor in random.sample(found, count):
        os.kill(executor, signal.SIGKILL)
        print("killed an executor", flush=True)  # noqa: T201


def main(root: str, place: str, text: str, life_text: str) -> None:
    """Write, read, join, copy, count, and die."""
    directory, life = Path(place), Life(**json.loads(life_text))
    spark = session(life, directory)
    feeds = Feeds(spark, root, json.loads(text))
    feeds.fill(life.first, life.rows)
    feeds.check(life.rows)
    print("written, read and joined", flush=True)  # noqa: T201
    queries = [Running(partial(feeds.copy, directory / "checkpoint"))]
    if life.counts:
        counted = partial(feeds.count, directory / "counted-checkpoint")
        queries.append(Running(counted))
    for batches in life.executors_die_after:
        for query in queries:
            query.wait_for(batches)
        kill_executors(life.dying_at_once)
    if life.driver_dies_after is not None:
        for query in queries:
            query.wait_for(life.driver_dies_after)
        os.killpg(os.getpgid(0), signal.SIGKILL)
    for query in queries:
        query.end()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
