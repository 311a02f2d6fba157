"""``python -m statestores_benchmarks.spark.object_store``: a state root on an S3 server.

* Spark reads a store's snapshot from the server, against its own reader of Parquet, by ``s3a://``
  from the same server, into ``noop``; both must have the same rows;
* a commit of 1,000 records to a changelog there, against one put of as many bytes, and beside the
  same commit of a store without a changelog, which is what the engine takes of it; once more behind
  a proxy that has each request wait, as a network does.

The server is the one of the tests, moto in one thread, so both sides wait for the same process.
``s3a://`` needs jars, which Maven brings by their coordinates the first time (700 MB). The cases
take turns, ratios are computed within a round, and medians are given.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
from statestores.storage import open_storage
from statestores_benchmarks.spark.comparison import (
    Comparison,
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
_COUNTS = ss.KeyValue("counts", key=ss.int64, value=ss.utf8)


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows that Spark reads.")] = 5_000_000,
    rounds: Annotated[int, typer.Option(help="Measured rounds; one more warms up.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="read or commit.")] = None,
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
            with _commit(directory / "near", bucket, "on this machine") as comparison:
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
def _commit(directory: Path, bucket: Bucket, where: str) -> Iterator[Comparison]:
    """Give commits of a store on the server, and puts of as many bytes as one of them takes.

    *where* the server is.
    """
    place, options = f"s3://{bucket.name}/{directory.name}", bucket.options
    url = f"{place}/commits"
    root = ss.StateRoot.create(url, storage_options=options)
    root.add_store(_COUNTS, partitions=1)
    there, storage = open_storage(url, options), open_storage(f"{place}/puts", options)
    noise, numbers = Random(1), count()
    with (
        ss.open_logged_store(root, _COUNTS, 0, directory=directory / "logged") as logged,
        ss.open_store(directory / "alone", _COUNTS) as alone,
    ):

        def fill(store: ss.KeyValueStore[int, str]) -> None:
            for key in range(_RECORDS):
                store.put(key, f"value {noise.random()}")

        def commit() -> float:
            fill(logged.store)
            began = time.perf_counter()
            logged.commit()
            return time.perf_counter() - began

        def commit_alone() -> float:
            fill(alone)
            began = time.perf_counter()
            alone.commit({}, durability=ss.Durability.PROCESS_CRASH)
            return time.perf_counter() - began

        before = {each.name for each in there.list("")}
        commit()
        (made,) = [each for each in there.list("") if each.name not in before]
        data = noise.randbytes(made.size)

        def puts() -> None:
            for _ in range(_COMMITS):
                storage.create(f"object-{next(numbers)}", data)

        yield Comparison(
            title=f"{_COMMITS} commits of {_RECORDS:,} records, puts of {made.size:,} bytes: "
            f"a server {where}",
            rows=1,
            cases={
                "statestores": lambda: sum(commit() for _ in range(_COMMITS)),
                "a put of as many bytes": puts,
                "the engine alone": lambda: sum(commit_alone() for _ in range(_COMMITS)),
            },
            target="at most 1.5 x the time",
        )


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
