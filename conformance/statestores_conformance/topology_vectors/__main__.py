"""Runs every case of a directory; exits with 1 when one differs from what it should be."""

import argparse
import logging
import sys
from importlib.resources import as_file, files
from pathlib import Path

from statestores.errors import StateStoreError
from statestores_conformance.topology_vectors.running import ALL, Runner, differences, load


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m statestores_conformance.topology_vectors",
        description="Run topologies with known results in the test driver, or by a runner.",
    )
    parser.add_argument(
        "directory", type=Path, nargs="?", help="cases as *.json; by default those that come along"
    )
    parser.add_argument(
        "--backend", help="where the stores are; by default in memory, on Kafka in SQLite"
    )
    parser.add_argument(
        "--batch", type=int, default=1, help="records that are processed at once; 0: all"
    )
    parser.add_argument(
        "--runner",
        choices=("driver", "local", "kafka"),
        default="driver",
        help="the test driver, the local runner on durable topics, or the runner on a Kafka "
        "cluster, where each batch is processed over stores restored from their changelogs",
    )
    parser.add_argument(
        "--bootstrap", default="", help="the brokers to begin with, host:port, for --runner kafka"
    )
    parser.add_argument(
        "--cache-max-bytes",
        type=int,
        default=0,
        help="memory in which updates wait for a batch's end; not with --runner kafka",
    )
    given = parser.parse_args(arguments)
    if given.cache_max_bytes < 0 or (given.cache_max_bytes and given.runner == "kafka"):
        parser.error("--cache-max-bytes is a number from 0, and 0 with --runner kafka")
    if (given.runner == "kafka") != bool(given.bootstrap):
        parser.error("--runner kafka and --bootstrap HOST:PORT go together")
    with as_file(files("statestores_conformance.topology_vectors") / "cases") as own:
        return run(
            given.directory or own,
            given.backend,
            given.batch,
            given.runner,
            given.bootstrap,
            given.cache_max_bytes,
        )


def run(
    directory: Path,
    backend: str | None,
    batch: int,
    runner: Runner = "driver",
    bootstrap: str = "",
    cache_max_bytes: int = 0,
) -> int:
    """Run the cases of *directory*; return 0 when every one is as it should be."""
    paths = sorted(directory.glob("*.json"))
    if not paths or batch < ALL:
        sys.stderr.write(f"{directory} has no *.json, or the batch size {batch} is below 0\n")
        return 2
    bad = 0
    for path in paths:
        try:
            found = differences(
                load(path),
                backend=backend,
                batch=batch,
                runner=runner,
                bootstrap_servers=bootstrap,
                cache_max_bytes=cache_max_bytes,
            )
        except (StateStoreError, KeyError, TypeError, AttributeError, ValueError) as error:
            found = [f"{type(error).__name__}: {error}"]
        bad += bool(found)
        for line in found:
            sys.stdout.write(f"{path.stem}: {line}\n")
    sys.stdout.write(f"{len(paths) - bad} of {len(paths)} as expected\n")
    return 1 if bad else 0


if __name__ == "__main__":
    logging.getLogger("statestores.processing").setLevel(logging.ERROR)  # cases drop on purpose
    sys.exit(main())
