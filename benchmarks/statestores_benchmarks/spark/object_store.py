"""``python -m statestores_benchmarks.spark.object_store``: a state root on an S3 server.

* Spark reads a store's snapshot from the server, against its own reader of Parquet, by ``s3a://``
  from the same server, into ``noop``; both must have the same rows;
* a commit of 1,000 records to a changelog there, of the same keys each time and of new ones,
  against one put of as many bytes, made at once after the last one and, as a commit is, after so
  many records were put into a store. Beside them what no commit can do without, the frame and its
  put; and the same commit of a store without a changelog, which is what an engine takes that is
  given each of them at once. Once more behind a proxy that has each request wait, as a network
  does.

The server is the one of the tests, moto in one thread, so both sides wait for the same process.
``s3a://`` needs jars, which Maven brings by their coordinates the first time (700 MB). The cases
take turns, ratios are computed within a round, and medians are given.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Annotated

import pyspark
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import statestores as ss
from statestores.changelog import ChangelogOptions
from statestores.changelog.contract import NO_POSITION
from statestores.changelog.frame import FrameKind
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.next_frame import frame_of
from statestores.changelog.rows import KEY_VALUE_CHANGES, batch_from_changes
from statestores.spi.records import Changes
from statestores.storage import open_storage
from statestores_benchmarks.spark.comparison import (
    Comparison,
    Timed,
    measured,
    require_equal,
    run,
    session,
    table,
)
from statestores_benchmarks.spark.rows import PARTITIONS, STORE, fill, parquet_of

_CHECKOUT = Path(__file__).parents[3]
sys.path.append(str(_CHECKOUT / "tests" / "object_log" / "kit"))

from s3 import Bucket, FaultyProxy, Server  # noqa: E402  # after the path to it

_MAVEN = _CHECKOUT / "tools" / "maven_libraries.py"
_POM = _CHECKOUT / "tools" / "s3a" / "pom.xml"
_JARS = _CHECKOUT / "build" / "s3a-libraries"
_PATIENT = {"client_options": {"allow_http": True, "timeout": "120s"}}
"""A file of half of the rows takes longer than what tests wait for."""
_RECORDS = 1_000
_COMMITS = 20
Clock = Callable[[], float]
_COUNTS = ss.KeyValue("counts", key=ss.int64, value=ss.utf8)


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows that Spark reads.")] = 5_000_000,
    rounds: Annotated[int, typer.Option(help="Measured rounds; one more warms up.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="read or commit.")] = None,
    processor: Annotated[
        bool,
        typer.Option(help="Commits by processor time, the server's included: on a busy machine."),
    ] = False,
) -> None:
    """Measure a state root on an S3 server, in ratios within one run."""
    chosen = set(only or ("read", "commit"))
    if unknown := chosen - {"read", "commit"}:
        raise typer.BadParameter(f"{unknown.pop()!r} is none of: read, commit")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="statestores-s3-") as temporary, Server() as server:
        directory, bucket = Path(temporary), server.bucket()
        bucket = bucket._replace(options={**bucket.options, **_PATIENT})
        if "commit" in chosen:
            clock = _processor_time(server) if processor else time.perf_counter
            with _commit(directory / "near", bucket, "on this machine", clock) as comparison:
                console.print(table(comparison, measured(comparison, rounds)))
            with FaultyProxy(server.port) as proxy:
                proxy.fault = lambda _method, _path: "slow"
                far = bucket.through(proxy)
                with _commit(directory / "far", far, "50 ms away") as comparison:
                    console.print(table(comparison, measured(comparison, rounds)))
        if "read" in chosen:
            spark = session(directory, _s3a(bucket))
            comparison = _read(spark, directory, bucket, rows)
            console.print(table(comparison, measured(comparison, rounds)))
            spark.stop()


# What is compared.


def _read(spark: SparkSession, directory: Path, bucket: Bucket, rows: int) -> Comparison:
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(STORE, partitions=PARTITIONS)
    for number in range(PARTITIONS):
        with (
            tempfile.TemporaryDirectory(dir=directory) as engine,
            ss.open_logged_store(root, STORE, number, directory=engine) as logged,
        ):
            fill(logged, number, rows)
    files = open_storage(f"s3://{bucket.name}/parquet", bucket.options)
    local = parquet_of(directory, rows)
    for file in sorted(local.iterdir()):
        files.create(file.name, file.read_bytes())
    reader = spark.read.format("statestores").options(**bucket.spark_options)

    def ours() -> DataFrame:
        return reader.load(bucket.root)

    def theirs() -> DataFrame:
        return spark.read.parquet(f"s3a://{bucket.name}/parquet")

    require_equal(ours(), theirs())
    return Comparison(
        title="snapshot of a store on an S3 server against Parquet there, into noop",
        rows=rows,
        cases={
            "statestores": lambda: run(ours()),
            "parquet, s3a": lambda: run(theirs()),
            "parquet, local disk": lambda: run(spark.read.parquet(str(local))),
        },
        target="at least 0.6 x the rows/s of s3a",
    )


@contextmanager
def _commit(
    directory: Path, bucket: Bucket, where: str, clock: Clock = time.perf_counter
) -> Iterator[Comparison]:
    """Give commits of a store on the server, and puts of as many bytes as one of them takes.

    *where* the server is. Time is that of *clock*.
    """
    place, options = f"s3://{bucket.name}/{directory.name}", bucket.options
    url = f"{place}/commits"
    root = ss.StateRoot.create(url, storage_options=options)
    root.add_store(_COUNTS, partitions=2)
    bodies = BodyWriter(KEY_VALUE_CHANGES, ChangelogOptions().compression)
    there, storage = open_storage(url, options), open_storage(f"{place}/puts", options)
    noise, numbers = Random(1), count()
    with (
        ss.open_logged_store(root, _COUNTS, 0, directory=directory / "logged") as logged,
        ss.open_logged_store(root, _COUNTS, 1, directory=directory / "growing") as growing,
        ss.open_store(directory / "alone", _COUNTS) as alone,
    ):

        def fill(store: ss.KeyValueStore[int, str], start: int = 0) -> None:
            for key in range(start, start + _RECORDS):
                store.put(key, f"value {noise.random()}")

        def commit() -> float:
            fill(logged.store)
            began = clock()
            logged.commit()
            return clock() - began

        def commit_new() -> float:
            fill(growing.store, _RECORDS * next(numbers))
            began = clock()
            growing.commit()
            return clock() - began

        def commit_alone() -> float:
            fill(alone)
            began = clock()
            alone.commit({}, durability=ss.Durability.PROCESS_CRASH)
            return clock() - began

        before = {each.name for each in there.list("")}
        commit()
        (made,) = [each for each in there.list("") if each.name not in before]
        data = noise.randbytes(made.size)

        def put(content: bytes) -> None:
            storage.create(f"object-{next(numbers)}", content)

        def put_data() -> float:
            began = clock()
            put(data)
            return clock() - began

        def put_after_filling() -> float:
            fill(alone)
            alone.rollback()
            began = clock()
            put(data)
            return clock() - began

        def put_frame() -> float:
            keys = [key.to_bytes(8, "big") for key in range(_RECORDS)]
            values = [f"value {noise.random()}".encode() for _ in keys]
            began = clock()
            batch = batch_from_changes(KEY_VALUE_CHANGES, Changes(keys, values))
            body = bodies.write(batch)
            put(frame_of(FrameKind.CHANGES, _RECORDS, body, NO_POSITION, 0, 0).stored())
            return clock() - began

        yield Comparison(
            title=f"{_COMMITS} commits of {_RECORDS:,} records, puts of {made.size:,} bytes: "
            f"a server {where}",
            rows=1,
            cases={
                "statestores": _repeated(commit),
                "a put of as many bytes": _repeated(put_data),
                "a put of as many bytes, after as many puts to a store": _repeated(
                    put_after_filling
                ),
                "statestores, new keys": _repeated(commit_new),
                "the frame and its put alone": _repeated(put_frame),
                "the engine alone": _repeated(commit_alone),
            },
            target="at most 1.5 x the time",
        )


def _repeated(once: Callable[[], float]) -> Timed:
    """Return what calls *once* as often as there are commits, and adds up what it says."""
    return lambda: sum(once() for _ in range(_COMMITS))


def _processor_time(server: Server) -> Clock:
    """Return the clock of the processor time that this process and *server* have had, in seconds.

    Only one of them has something to do at any time, so that is what would pass on an idle machine.
    """
    of_server = Path(f"/proc/{server.process_id}/schedstat")
    return lambda: time.process_time() + int(of_server.read_text().split()[0]) / 1e9


def _s3a(bucket: Bucket) -> dict[str, str]:
    """Return Spark's settings for ``s3a://``, of the Hadoop that this Spark has."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    command = [sys.executable, str(_MAVEN), str(_POM), str(_JARS), f"-Dhadoop.version={version}"]
    found = subprocess.run(  # noqa: S603  # a tool of the checkout
        command, stdout=subprocess.PIPE, text=True, check=True
    )
    jars = sorted(Path(found.stdout.strip()).glob("*.jar"))
    settings = {
        "endpoint": bucket.options["endpoint"],
        "endpoint.region": bucket.options["region"],
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": bucket.options["access_key_id"],
        "secret.key": bucket.options["secret_access_key"],
    }
    hadoop = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
    return hadoop | {"spark.jars": ",".join(map(str, jars))}


if __name__ == "__main__":
    typer.run(main)
