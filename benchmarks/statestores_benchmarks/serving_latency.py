"""``python -m statestores_benchmarks.serving_latency``: a read here, and from another process.

One process serves a RocksDB store by Flight and HTTP, this one asks it over loopback, one question
after the other; the reads of a row take turns, and each figure is of all rounds.
"""

import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from time import perf_counter_ns
from typing import Annotated, Any

import typer

import statestores as ss
from statestores.query import QueryableStores, Question
from statestores.query.metadata import Host
from statestores.serving import FlightServer, FlightStores, HttpServer, ServedTasks
from statestores.serving.http.rendering import ARROW
from statestores.tasks import TaskManager
from statestores_benchmarks.data import distinct_keys, drawn
from statestores_benchmarks.turns import turns

COUNTS = ss.KeyValue("counts")
KEYS = distinct_keys(100_000)
BATCH = 1_000
RANGE_ROWS = 10_000
WARM_UP = 20

Read = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One read, made in different ways."""

    name: str
    """What is read."""

    repeats: int
    """How often in a round."""

    ways: dict[str, Read]
    """Each way of making it, given a number."""


@contextmanager
def _manager(directory: Path) -> Iterator[TaskManager]:
    root = ss.StateRoot.create(directory / "state")
    root.add_store(COUNTS, partitions=1)
    with TaskManager(root, {0: [COUNTS.name]}, backend="rocksdb") as manager:
        manager.assign(["0_0"])
        yield manager


def _serve(directory: Path) -> None:
    """Serve until standard input ends; say where on standard output."""
    with _manager(directory) as manager:
        served = ServedTasks(manager)
        with FlightServer(served) as flight, HttpServer(served) as web:
            sys.stdout.write(f"{flight.host} {web.host}\n")
            sys.stdout.flush()
            sys.stdin.read()


def _web(host: Host) -> Callable[..., bytes]:
    connection = http.client.HTTPConnection(host.name, host.port)

    def ask(path: str, accept: str = "application/json", body: bytes | None = None) -> bytes:
        method = "GET" if body is None else "POST"
        connection.request(method, f"/v1/stores/counts/{path}", body, {"accept": accept})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != http.client.OK:
            sys.exit(f"{path}: {data!r}")
        return data

    return ask


def _rows(here: Any, there: Any, ask: Callable[..., bytes]) -> list[Row]:
    """Return what is compared: a local read, Flight, and HTTP."""
    wanted = drawn(KEYS, 5_000)
    batch = drawn(KEYS, BATCH)
    body = json.dumps({"keys": [f"hex:{key.hex()}" for key in batch]}).encode()
    first = sorted(KEYS)[1_000]
    last = sorted(KEYS)[1_000 + RANGE_ROWS - 1]
    span = f"first=hex:{first.hex()}&last=hex:{last.hex()}&limit={RANGE_ROWS}"
    return [
        Row(
            "get",
            300,
            {
                "local": lambda number: here.get(wanted[number]),
                "Flight": lambda number: there.get(wanted[number]),
                "HTTP, JSON": lambda number: ask(f"value?key=hex:{wanted[number].hex()}"),
            },
        ),
        Row(
            f"get_many, {BATCH:,} keys",
            10,
            {
                "local": lambda _: here.get_many(batch),
                "Flight": lambda _: there.get_many(batch),
                "HTTP, JSON": lambda _: ask("values", body=body),
                "HTTP, Arrow": lambda _: ask("values", ARROW, body),
            },
        ),
        Row(
            f"range, {RANGE_ROWS:,} rows",
            4,
            {
                "local": lambda _: list(here.range(first, last)),
                "Flight": lambda _: list(there.range(first, last)),
                "HTTP, JSON": lambda _: ask(f"rows?{span}"),
                "HTTP, Arrow": lambda _: ask(f"rows?{span}", ARROW),
            },
        ),
    ]


def main(
    rounds: Annotated[int, typer.Option(min=2, help="Rounds.")] = 10,
    served: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Print microseconds of each read: the median, and the 99th of a hundred."""
    if served is not None:
        _serve(served)
        return
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for place in ("here", "there"):
            with _manager(directory / place) as manager:
                task = manager.task("0_0")
                task.store(COUNTS.name).put_many(KEYS, [b"eight b."] * len(KEYS))
                task.commit({ss.TopicPartition("in", 0): 1})
        program = [sys.executable, "-m", __spec__.name, "--served", str(directory / "there")]
        serving = stack.enter_context(
            subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603  # this program
        )
        if serving.stdout is None or serving.stdin is None:
            sys.exit("no pipes")
        stack.callback(serving.stdin.close)
        flight, web = map(Host.of, serving.stdout.readline().split())
        manager = stack.enter_context(_manager(directory / "here"))
        remote = stack.enter_context(FlightStores())
        here = QueryableStores(manager).store(COUNTS)
        there = remote.store(flight, Question(specification=COUNTS))
        ways = ("local", "Flight", "HTTP, JSON", "HTTP, Arrow")
        print(f"| µs: median (99th of 100) | {' | '.join(ways)} |")
        print("|---|--:|--:|--:|--:|")
        for row in _rows(here, there, _web(web)):
            taken: dict[str, list[int]] = {way: [] for way in row.ways}
            for number in range(-WARM_UP, 0):
                for read in row.ways.values():
                    read(number)
            for turn in range(rounds):
                for way in turns(row.name, turn, list(row.ways)):
                    read = row.ways[way]
                    for number in range(row.repeats):
                        before = perf_counter_ns()
                        read(turn * row.repeats + number)
                        taken[way].append(perf_counter_ns() - before)
            cells = [_cell(taken.get(way)) for way in ways]
            print(f"| {row.name} | {' | '.join(cells)} |")


def _cell(nanoseconds: list[int] | None) -> str:
    if nanoseconds is None:
        return "not there"
    marks = quantiles(nanoseconds, n=100, method="inclusive")
    return f"{marks[49] / 1e3:,.4g} ({marks[98] / 1e3:,.4g})"


if __name__ == "__main__":
    typer.run(main)
