"""``python -m statestores_benchmarks.kafka``: rates of a count by key, exactly once.

A topic is filled; then each contender counts it, in turns, in a process of its own with an empty
state. A reader of what is committed adds up the last count of each key, which says how many
records are counted, also where not every update comes out. It notes when a fifth is there, and when
all are; between the two lie elapsed time, and processor time of the contender's process. The
broker's own is in neither, and all share the machine's cores.
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

from statestores_benchmarks.turns import turns

_TOOLS = Path(__file__).parents[3] / "tools"
_HERE = Path(__file__).parent
_KEYS = 10_000
_PATIENCE_SECONDS = 600.0


_CACHE_BYTES = 10 << 20
"""Kafka Streams' default of statestore.cache.max.bytes."""
_EACH = ", each update"


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
    ours = [sys.executable, str(_HERE / "ours.py")]
    streams = [sys.executable, str(_TOOLS / "kafka_peer.py"), "--measured", "Counts"]
    contenders = {
        "statestores" + _EACH: (ours, ["each"]),
        "statestores, as `run` chooses": (ours, []),
        "Kafka Streams" + _EACH: (streams, []),
        "Kafka Streams, its cache": (streams, [str(_CACHE_BYTES)]),
    }
    if quix_python is not None:
        contenders["Quix Streams" + _EACH] = ([str(quix_python), str(_HERE / "quix.py")], [])
    found: dict[str, list[Rate]] = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory() as directory, _broker(Path(directory)) as address:
        admin = AdminClient({"bootstrap.servers": address})
        source = _filled(admin, address, records, partitions)
        for number in range(rounds):
            for name, (command, more) in turns("counts", number, list(contenders.items())):
                state = Path(directory) / f"{name} {number}"
                found[name].append(_counted(admin, address, command, more, source, records, state))
                sys.stderr.write(f"{name}: {found[name][-1]}\n")
    sys.stdout.write("| | CPU µs a record | of all rounds | records/s |\n|---|--:|--:|--:|\n")
    for name, rates in found.items():
        per_second = statistics.median(each.per_second for each in rates)
        cpu = sorted(each.cpu_us for each in rates)
        sys.stdout.write(
            f"| {name} | {statistics.median(cpu):.1f} | {cpu[0]:.1f} to {cpu[-1]:.1f} "
            f"| {per_second:,.0f} |\n"
        )


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
    admin: AdminClient,
    address: str,
    command: list[str],
    more: list[str],
    source: str,
    records: int,
    state: Path,
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
    counts: dict[bytes, int] = {}
    name = f"counting-{uuid4().hex[:8]}"
    state.mkdir()
    with subprocess.Popen(  # noqa: S603  # the contender
        [*command, address, name, source, target, str(state), *more], stdout=subprocess.DEVNULL
    ) as process:
        try:
            seen = _read_until(consumer, counts, records // 5, process)
            begun, cpu = time.perf_counter(), _cpu_seconds(process.pid)
            missing = records - seen
            _read_until(consumer, counts, records, process)
            elapsed = time.perf_counter() - begun
            return Rate(missing / elapsed, (_cpu_seconds(process.pid) - cpu) * 1e6 / missing)
        finally:
            process.kill()
            consumer.close()


def _read_until(
    consumer: Consumer, counts: dict[bytes, int], wanted: int, process: subprocess.Popen[bytes]
) -> int:
    """Note the last count of each key in *counts*; return their sum once it is *wanted*."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    seen = sum(counts.values())
    while seen < wanted:
        for message in consumer.consume(10_000, 0.05):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                counts[key] = int.from_bytes(value, "big")
        seen = sum(counts.values())
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} has counted {seen} of {wanted}")
    return seen


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, all of its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    typer.run(main)
