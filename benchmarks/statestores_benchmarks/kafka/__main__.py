"""``python -m statestores_benchmarks.kafka``: rates of a count by key, exactly once.

A topic is filled; then each contender counts it, in turns, in a process of its own with an empty
state. A reader of what is committed notes when a fifth of the counts is there, and when all are;
between the two lie elapsed time, and processor time of the contender's process. The broker's own is
in neither, and all share the machine's cores.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import uuid4

import typer
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

_TOOLS = Path(__file__).parents[3] / "tools"
_HERE = Path(__file__).parent
_KEYS = 10_000
_PATIENCE_SECONDS = 600.0


class Rate(NamedTuple):
    """What one contender did in one round."""

    per_second: float
    """Records a second."""

    cpu_us: float
    """Microseconds of processor time for each record."""


def main(
    *,
    records: Annotated[int, typer.Option(min=1_000, help="Records to count.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="Times; the median counts.")] = 3,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topics.")] = 4,
    quix_python: Annotated[
        Path | None, typer.Option(help="An interpreter that has Quix Streams.")
    ] = None,
) -> None:
    """Count with each contender, and print a table."""
    contenders = {
        "statestores": [sys.executable, str(_HERE / "ours.py")],
        "Kafka Streams": [sys.executable, str(_TOOLS / "kafka_peer.py"), "Counts"],
    }
    if quix_python is not None:
        contenders["Quix Streams"] = [str(quix_python), str(_HERE / "quix.py")]
    found: dict[str, list[Rate]] = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory() as directory, _broker(Path(directory)) as address:
        admin = AdminClient({"bootstrap.servers": address})
        source = _filled(admin, address, records, partitions)
        for number in range(rounds):
            for name, command in contenders.items():
                state = Path(directory) / f"{name} {number}"
                found[name].append(_counted(admin, address, command, source, records, state))
                sys.stderr.write(f"{name}: {found[name][-1]}\n")
    sys.stdout.write("| | records/s | CPU µs a record |\n|---|--:|--:|\n")
    for name, rates in found.items():
        per_second = statistics.median(each.per_second for each in rates)
        cpu_us = statistics.median(each.cpu_us for each in rates)
        sys.stdout.write(f"| {name} | {per_second:,.0f} | {cpu_us:.1f} |\n")


@contextmanager
def _broker(directory: Path) -> Iterator[str]:
    program = [sys.executable, str(_TOOLS / "kafka_broker.py"), str(directory / "broker")]
    with subprocess.Popen(  # noqa: S603  # our own tool
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        yield broker.stdout.readline().strip() if broker.stdout is not None else ""
        broker.communicate()


def _filled(admin: AdminClient, address: str, records: int, partitions: int) -> str:
    """Return a topic with *records* records."""
    source = _made(admin, "given", partitions)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
    for number in range(records):
        key = f"key-{number * 7_919 % _KEYS}".encode()
        while True:
            try:
                producer.produce(source, number.to_bytes(8, "big"), key, timestamp=1 + number)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return source


def _made(admin: AdminClient, what: str, partitions: int) -> str:
    name = f"{what}-{uuid4().hex[:8]}"
    [made] = admin.create_topics(
        [NewTopic(name, num_partitions=partitions, replication_factor=1)]
    ).values()
    made.result(_PATIENCE_SECONDS)
    return name


def _counted(
    admin: AdminClient, address: str, command: list[str], source: str, records: int, state: Path
) -> Rate:
    """Run a contender over *source*, and return its rate."""
    partitions = len(admin.list_topics(source).topics[source].partitions)
    target = _made(admin, "counts", partitions)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([KafkaPartition(target, each, OFFSET_BEGINNING) for each in range(partitions)])
    name = f"counting-{uuid4().hex[:8]}"
    state.mkdir()
    with subprocess.Popen(  # noqa: S603  # the contender
        [*command, address, name, source, target, str(state)], stdout=subprocess.DEVNULL
    ) as process:
        try:
            seen = _read_until(consumer, 0, records // 5, process)
            begun, cpu = time.perf_counter(), _cpu_seconds(process.pid)
            missing = records - seen
            _read_until(consumer, seen, records, process)
            elapsed = time.perf_counter() - begun
            return Rate(missing / elapsed, (_cpu_seconds(process.pid) - cpu) * 1e6 / missing)
        finally:
            process.kill()
            consumer.close()


def _read_until(
    consumer: Consumer, seen: int, wanted: int, process: subprocess.Popen[bytes]
) -> int:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while seen < wanted:
        seen += sum(each.error() is None for each in consumer.consume(10_000, 0.05))
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} has counted {seen} of {wanted}")
    return seen


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, all of its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    typer.run(main)
