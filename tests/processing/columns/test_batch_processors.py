"""Steps that take Arrow batches: functions of them, and processors with stores and timers."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTopologyError, ProcessingError
from statestores.processing import (
    BatchContext,
    BatchProcessor,
    DeadLetter,
    ErrorPolicy,
    Record,
    Topic,
    Topology,
)
from statestores_conformance.many_cases import for_each

IN = Topic("in", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.int64)
HEADERS = (("h", b"1"),)
INPUTS = [Record("ab"[n % 2], n, n, HEADERS if n % 3 else ()) for n in range(12)]


def _doubled_odd(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = batch.filter(pc.equal(pc.bit_wise_and(batch["value"], 1), 1))
    return kept.set_column(1, "value", pc.multiply(kept["value"], 2))


class Totals(BatchProcessor):
    """Sums, one row for each record, and how many records there were every ten milliseconds."""

    sums = ss.KeyValue("sums", key=ss.utf8, value=ss.int64)

    def open(self, context: BatchContext) -> None:
        """Begin to count."""
        self.sizes: list[int] = []
        context.every(10, self.look)

    def process(self, batch: pa.RecordBatch) -> None:
        """Add the values, in their order."""
        store = self.store(self.sums)
        found = []
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            if value == -1:
                raise ValueError("minus one")
            total = (store.get(key) or 0) + value
            store.put(key, total)
            found.append(total)
        self.forward(batch.set_column(1, "value", pa.array(found, pa.int64())))

    def look(self, now_ms: int) -> None:
        """Say what time it is."""
        batch = {"key": ["time"], "value": [now_ms], "time_ms": [now_ms]}
        self.forward(pa.table(batch))


def _mapped() -> Topology:
    topology = Topology("mapped")
    topology.stream(IN).batches(_doubled_odd, key=ss.utf8, value=ss.int64).to(OUT)
    return topology


def _processed(errors: Any = "fail") -> Topology:
    topology = Topology("processed", errors=errors)
    topology.stream(IN).process_batches(Totals, key=ss.utf8, value=ss.int64).to(OUT)
    return topology


def _outputs(topology: Topology, size: int, inputs: list[Record[Any, Any]]) -> list[Any]:
    with topology.test() as driver:
        driver.to_batches(size, least_column_rows=1)
        driver.topic("in").pipe_all(inputs)
        return driver.topic("out").read_all()


@pytest.mark.spec("PRC-80", "PRC-81")
@for_each("size", [1, 2, 5, 12])
def test_a_function_of_batches_gives_the_same_however_they_are_cut(size: int) -> None:
    """Keys, values, times and headers."""
    expected = [each.with_value(each.value * 2) for each in INPUTS if each.value % 2]

    assert _outputs(_mapped(), size, INPUTS) == expected


@pytest.mark.spec("PRC-80", "PRC-81")
@for_each("size", [1, 2, 5, 12])
def test_a_batch_processor_has_stores_and_timers(size: int) -> None:
    """Its timers fire between the same records: a batch that one is due in is taken one by one."""
    assert _outputs(_processed(), size, INPUTS) == _outputs(_processed(), 1, INPUTS)


@pytest.mark.spec("PRC-80")
def test_a_batch_processor_is_given_whole_batches() -> None:
    """Where nothing is due in them."""
    sizes: list[int] = []

    class Sized(BatchProcessor):
        def process(self, batch: pa.RecordBatch) -> None:
            sizes.append(batch.num_rows)
            assert (self.context.topic, self.context.offset) == ("in", 6 * (len(sizes) - 1))

    topology = Topology("sized")
    topology.stream(IN).process_batches(Sized, key=ss.utf8, value=ss.int64)
    _outputs_of_none(topology)

    assert sizes == [6, 6]


def _outputs_of_none(topology: Topology) -> None:
    with topology.test() as driver:
        driver.to_batches(6)
        driver.topic("in").pipe_all(INPUTS)


@pytest.mark.spec("PRC-81")
def test_a_record_at_which_a_batch_processor_fails_is_dropped_alone() -> None:
    """With a policy to go on, records come one by one, so that the others stay."""
    inputs = [Record("a", value, 1) for value in (1, -1, 2)]
    with _processed("skip").test() as driver:
        driver.to_batches(3, least_column_rows=1)
        driver.topic("in").pipe_all(inputs)

        assert driver.store("sums").get("a") == 3
        assert driver.dropped_total == 1


@pytest.mark.spec("PRC-81")
def test_a_batch_at_which_a_processor_fails_stops_the_task() -> None:
    """Its stores have a part of the batch: nothing is tried again."""
    with _processed().test() as driver:
        driver.topic("in").pipe(1, "a", time_ms=1)
        driver.to_batches(3, least_column_rows=1)

        with pytest.raises(ProcessingError, match="'Totals' failed at 'in', partition 0, offset 1"):
            driver.topic("in").pipe_all([Record("a", value, 1) for value in (1, -1, 2)])


@pytest.mark.spec("PRC-17", "PRC-19", "PRC-104")
def test_what_fails_behind_a_batch_is_said_of_its_record(subtests: pytest.Subtests) -> None:
    """The letter had the last record of the batch, and the one that had failed was nowhere."""

    def refusing(value: int) -> int:
        if value in (6, 10):
            raise ValueError(value)
        return value

    def texted(total: int) -> Any:
        return "no" if total in (4, 9) else total

    def mapped(errors: Any) -> Topology:
        topology = Topology("mapped", errors=errors)
        made = topology.stream(IN).batches(_doubled_odd, key=ss.utf8, value=ss.int64)
        made.map_values(refusing, value=ss.int64).to(OUT)
        return topology

    def processed(errors: Any) -> Topology:
        topology = Topology("processed", errors=errors)
        made = topology.stream(IN).process_batches(Totals, key=ss.utf8, value=ss.int64)
        made.map_values(texted, value=ss.int64).to(OUT)
        return topology

    dead = DeadLetter(Topic("dead"))
    for make, errors in ((mapped, dead), (processed, ErrorPolicy(encode=dead))):
        for size in (1, 12):
            with subtests.test(make.__name__, size=size), make(errors).test() as driver:
                driver.to_batches(size, least_column_rows=1)
                driver.topic("in").pipe_all(INPUTS)
                letters = driver.topic("dead").read_bytes()
                said = [dict(each.headers)["__streams.errors.offset"] for each in letters]

                assert [each.time_ms for each in letters] == [3, 5]
                assert said == [b"3", b"5"]
    with subtests.test("to fail"), mapped("fail").test() as driver:
        driver.to_batches(12, least_column_rows=1)
        with pytest.raises(ProcessingError, match="'in', partition 0, offset 3: ValueError"):
            driver.topic("in").pipe_all(INPUTS)


@pytest.mark.spec("PRC-80")
def test_a_batch_without_the_columns_of_records_is_refused() -> None:
    """The message has what is missing, and what a serde takes."""
    topology = Topology("wrong")
    topology.stream(IN).batches(
        lambda batch: batch.drop_columns(["time_ms"]), key=ss.utf8, value=ss.int64
    ).to(OUT)

    with pytest.raises(ProcessingError, match="this one has no time_ms"):
        _outputs(topology, 2, INPUTS)


@pytest.mark.spec("PRC-80")
def test_serdes_that_are_not_known_are_asked_for() -> None:
    """A batch has columns of known types."""
    topology = Topology("unknown")
    stream = topology.stream(IN).map(lambda record: record.value)

    with pytest.raises(InvalidTopologyError, match="the keys of 'in' have no serde"):
        stream.batches(_doubled_odd, key=ss.utf8, value=ss.int64)


@pytest.mark.spec("PRC-80")
def test_values_without_an_arrow_type_are_bytes() -> None:
    """As the serde writes them, on both ways."""
    values = Topic("in", key=ss.utf8, value=ss.json)
    topology = Topology("bytes")
    topology.stream(values).batches(lambda batch: batch, key=ss.utf8, value=ss.json).to(
        Topic("out", key=ss.utf8, value=ss.json)
    )
    inputs = [Record("a", {"n": number}, number) for number in range(4)]

    assert _outputs(topology, 3, inputs) == inputs


def test_what_a_batch_processor_asks_for_is_checked() -> None:
    """By a name it ended in an AttributeError; a processor of records said what to ask by."""

    class Wrong(BatchProcessor):
        counts = ss.KeyValue("counts")

        def process(self, batch: pa.RecordBatch) -> None:
            """Ask by a name."""
            self.store("counts")  # type: ignore[call-overload]

    made = Topology("wrong")
    made.stream(IN).process_batches(Wrong, key=ss.utf8, value=ss.int64)
    with made.test() as driver, pytest.raises(ProcessingError, match=r"self.store\(self.counts\)"):
        driver.topic("in").pipe(1, key="a", time_ms=1)
    with pytest.raises(InvalidArgumentError, match=r"from open\(context\) on"):
        Wrong().store(Wrong.counts)
