"""``python -m statestores_benchmarks.spark.object_store``: a state root on an S3 server.

* Spark reads a store's snapshot from the server, against its own reader of Parquet, by ``s3a://``
  from the same server, into ``noop``; both must have the same rows;
* a commit of 1,000 records to a changelog there, against one put of as many bytes.

The server is the one of the tests, moto in one thread, so both sides wait for the same process.
``s3a://`` needs jars, which Maven brings by their coordinates the first time (700 MB). The cases
take turns, ratios are computed within a round, and medians are given.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from random import Random
from typing import Annotated, Any

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
_SERVER = _CHECKOUT / "tests" / "object_log" / "kit" / "serial_s3.py"
_MAVEN = _CHECKOUT / "tools" / "maven_libraries.py"
_POM = _CHECKOUT / "tools" / "s3a" / "pom.xml"
_JARS = _CHECKOUT / "build" / "s3a-libraries"
_BUCKET = "bench"
_KEY_ID, _SECRET = "bench", "no-secret"
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
    with tempfile.TemporaryDirectory(prefix="statestores-s3-") as temporary, _server() as port:
        directory = Path(temporary)
        if "commit" in chosen:
            with _commit(directory / "engine", port) as comparison:
                console.print(table(comparison, measured(comparison, rounds)))
        if "read" in chosen:
            spark = session(directory, _s3a(port))
            comparison = _read(spark, directory, port, rows)
            console.print(table(comparison, measured(comparison, rounds)))
            spark.stop()


# What is compared.


def _read(spark: SparkSession, directory: Path, port: int, rows: int) -> Comparison:
    url, options = f"s3://{_BUCKET}/root", _options(port)
    root = ss.StateRoot.create(url, storage_options=options)
    root.add_store(STORE, partitions=PARTITIONS)
    for number in range(PARTITIONS):
        with (
            tempfile.TemporaryDirectory(dir=directory) as engine,
            ss.open_logged_store(root, STORE, number, directory=engine) as logged,
        ):
            fill(logged, number, rows)
    files = open_storage(f"s3://{_BUCKET}/parquet", options)
    local = parquet_of(directory, rows)
    for file in sorted(local.iterdir()):
        files.create(file.name, file.read_bytes())
    reader = spark.read.format("statestores").options(**_spark_options(port))

    def ours() -> DataFrame:
        return reader.load(url)

    def theirs() -> DataFrame:
        return spark.read.parquet(f"s3a://{_BUCKET}/parquet")

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
def _commit(directory: Path, port: int) -> Iterator[Comparison]:
    """Give commits of a store on the server, and puts of as many bytes as one of them takes."""
    options, url = _options(port), f"s3://{_BUCKET}/commits"
    root = ss.StateRoot.create(url, storage_options=options)
    root.add_store(_COUNTS, partitions=1)
    there, storage = open_storage(url, options), open_storage(f"s3://{_BUCKET}/puts", options)
    noise, numbers = Random(1), count()
    with ss.open_logged_store(root, _COUNTS, 0, directory=directory) as logged:

        def commit() -> float:
            for key in range(_RECORDS):
                logged.store.put(key, f"value {noise.random()}")
            began = time.perf_counter()
            logged.commit()
            return time.perf_counter() - began

        before = {each.name for each in there.list("")}
        commit()
        (made,) = [each for each in there.list("") if each.name not in before]
        data = noise.randbytes(made.size)

        def put() -> None:
            storage.create(f"object-{next(numbers)}", data)

        def puts() -> None:
            for _ in range(_COMMITS):
                put()

        yield Comparison(
            title=f"{_COMMITS} commits of {_RECORDS:,} records against puts of {made.size:,} bytes",
            rows=1,
            cases={
                "statestores": lambda: sum(commit() for _ in range(_COMMITS)),
                "a put of as many bytes": puts,
            },
            target="at most 1.5 x the time",
        )


# The server.


@contextmanager
def _server() -> Iterator[int]:
    """Give the port of an S3 server with a bucket."""
    command = [sys.executable, str(_SERVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as own:  # noqa: S603  # ours
        try:
            port = int(next(iter(own.stdout or ())))
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("PUT", f"/{_BUCKET}")
            if connection.getresponse().status != HTTPStatus.OK:
                raise SystemExit("the S3 server makes no bucket")
            connection.close()
            yield port
        finally:
            own.kill()


def _options(port: int) -> dict[str, Any]:
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": _KEY_ID,
        "secret_access_key": _SECRET,
        "region": "us-east-1",
        "client_options": {"allow_http": True, "timeout": "120s"},
    }


def _spark_options(port: int) -> dict[str, str]:
    options = _options(port)
    names = ("access_key_id", "secret_access_key")
    secrets = {name: options.pop(name) for name in names}
    return {"storageOptions": json.dumps(options), "storageSecrets": json.dumps(secrets)}


def _s3a(port: int) -> dict[str, str]:
    """Return Spark's settings for ``s3a://``, of the Hadoop that this Spark has."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    command = [sys.executable, str(_MAVEN), str(_POM), str(_JARS), f"-Dhadoop.version={version}"]
    found = subprocess.run(  # noqa: S603  # a tool of the checkout
        command, stdout=subprocess.PIPE, text=True, check=True
    )
    jars = sorted(Path(found.stdout.strip()).glob("*.jar"))
    settings = {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": _KEY_ID,
        "secret.key": _SECRET,
    }
    hadoop = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
    return hadoop | {"spark.jars": ",".join(map(str, jars))}


if __name__ == "__main__":
    typer.run(main)
