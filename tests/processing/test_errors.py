"""Records that cannot be decoded, processed or encoded: fail, skip, dead letters."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError, ProcessingError, SerializationError, StorageError
from statestores.processing import (
    Context,
    DeadLetter,
    ErrorPolicy,
    Processor,
    Record,
    Topic,
    Topology,
)
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

NUMBERS = Topic("numbers", key=ss.utf8, value=ss.json)
OUT = Topic("out", key=ss.utf8, value=ss.utf8)
DEAD = Topic("dead")


def halves(errors: Any) -> Topology:
    """Return a topology that divides 12 by each number, and writes texts."""
    topology = Topology("halves", errors=errors)
    numbers = topology.stream(NUMBERS)
    numbers.map_values(lambda value: str(12 // value), name="divide").to(OUT)
    numbers.map_values(lambda value: value if value == 5 else "fine").to(
        Topic("others", key=ss.utf8, value=ss.utf8), name="others"
    )
    return topology


def bad_bytes() -> Record[bytes | None, bytes | None]:
    """Return a record that is no JSON."""
    return Record(b"k", b"{", 3, (("h", b"1"),))


@pytest.mark.spec("PRC-17")
def test_failing_names_the_place() -> None:
    """Topic, partition, offset and operator, for each of the three; the cause is the failure."""
    for value, message, cause in (
        (b"0", r"'divide' failed at 'numbers', partition 0, offset 1", ZeroDivisionError),
        (b"5", r"'others' failed .*offset 1", SerializationError),
        (b"{", r"'source-numbers' failed .*offset 1", SerializationError),
    ):
        with halves("fail").test() as driver:
            driver.topic("numbers").pipe(4, key="k", time_ms=1)
            with pytest.raises(ProcessingError, match=message) as raised:
                driver.topic("numbers").pipe_bytes(Record(b"k", value, 1))

            assert isinstance(raised.value.__cause__, cause)


@pytest.mark.spec("PRC-17")
def test_a_task_that_failed_commits_nothing_more() -> None:
    """A part of the record is in its stores: neither that nor another record may be committed."""
    topology = halves("fail")
    topology.stream(NUMBERS).group_by_key().count(
        ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    )
    with topology.test() as driver:
        with pytest.raises(ProcessingError):
            driver.topic("numbers").pipe(0, key="k", time_ms=1)
        with pytest.raises(ProcessingError, match="make the task anew"):
            driver.topic("numbers").pipe(4, key="k")
        with pytest.raises(ProcessingError, match="make the task anew"):
            driver.advance_wall_clock(1)
        with pytest.raises(ProcessingError, match="make the task anew"):
            driver.commit()


@pytest.mark.spec("PRC-17", "PRC-26")
@for_each("errors", ["fail", "skip"])
def test_a_full_suppression_stops_the_task(errors: Any) -> None:
    """The error named no record, and the task took more records and committed them."""
    topology = Topology("full", errors=errors)
    store = ss.KeyValue("n", key=ss.utf8, value=ss.json)
    counts = topology.stream(NUMBERS).group_by_key().count(store)
    counts.suppress(max_rows=1, when_full="fail").to(Topic("counts", key=ss.utf8, value=ss.json))

    with topology.test() as driver:
        driver.topic("numbers").pipe(1, key="a", time_ms=1)
        with pytest.raises(ProcessingError, match=r"partition 0, offset 1: .* may wait"):
            driver.topic("numbers").pipe(1, key="b", time_ms=1)
        with pytest.raises(ProcessingError, match="make the task anew"):
            driver.topic("numbers").pipe(1, key="a", time_ms=1)
        with pytest.raises(ProcessingError, match="make the task anew"):
            driver.commit()


class Strict(Processor[str, int, str, int]):
    """Refuses everything."""

    def process(self, record: Record[str, int]) -> None:
        """Refuse."""
        raise ValueError("no")


@pytest.mark.spec("PRC-17")
def test_a_failing_processor_is_named() -> None:
    """By its own name, not that of the step before."""
    topology = Topology("strict")
    topology.stream(NUMBERS).filter(lambda record: True, name="all").process(Strict)

    with topology.test() as driver, pytest.raises(ProcessingError, match="'Strict' failed"):
        driver.topic("numbers").pipe(1, key="k", time_ms=1)


@pytest.mark.spec("PRC-18", "PRC-28")
def test_skipping_leaves_the_other_branches_alone() -> None:
    """The record is dropped where it failed, and counted."""
    with halves("skip").test() as driver:
        for number in (4, 0, 5):
            driver.topic("numbers").pipe(number, key="k", time_ms=1)
        driver.topic("numbers").pipe_bytes(bad_bytes())
        out = [record.value for record in driver.topic("out").read_all()]
        others = [record.value for record in driver.topic("others").read_all()]
        (dropped,) = (counts.dropped for counts in driver.counts)

    assert (out, others) == (["3", "2"], ["fine", "fine"])
    assert dropped == {
        ("divide", "failed-ZeroDivisionError"): 1,
        ("others", "failed-SerializationError"): 1,
        ("source-numbers", "failed-SerializationError"): 1,
    }


@pytest.mark.spec("PRC-19")
def test_dead_letters_carry_the_record_and_the_reason() -> None:
    """Key, value and headers as they came; the reason in more headers."""
    policy = ErrorPolicy(decode=DeadLetter(DEAD), process=DeadLetter(DEAD), encode="skip")
    with halves(policy).test() as driver:
        driver.topic("numbers").pipe_bytes(bad_bytes())
        driver.topic("numbers").pipe(0, key="k", time_ms=7)
        first, second = driver.topic("dead").read_bytes()
    said = dict(first.headers)

    assert (first.key, first.value, first.time_ms) == (b"k", b"{", 3)
    assert said["h"] == b"1"
    assert said["__streams.errors.exception"] == b"SerializationError"
    assert said["__streams.errors.topic"] == b"numbers"
    assert said["__streams.errors.offset"] == b"0"
    assert (second.value, dict(second.headers)["__streams.errors.operator"]) == (b"0", b"divide")


class Fragile(Processor[str, int, str, int]):
    """Fails in its timer, every other time."""

    def open(self, context: Context[str, int]) -> None:
        """Ask for the time."""
        self.calls = 0
        context.every(10, self.tick)

    def process(self, record: Record[str, int]) -> None:
        """Only time matters."""

    def tick(self, now_ms: int) -> None:
        """Fail, or not."""
        self.calls += 1
        if self.calls % 2:
            raise ValueError("odd")
        self.forward(Record("tick", now_ms, now_ms))


@pytest.mark.spec("PRC-17", "PRC-18", "PRC-19")
def test_a_timer_that_fails_is_dealt_with_too() -> None:
    """It stops the task, or is counted; there is no record that could be a dead letter."""

    def topology(errors: Any) -> Topology:
        made = Topology("fragile", errors=errors)
        made.stream(NUMBERS).process(Fragile).to(Topic("ticks", key=ss.utf8, value=ss.json))
        return made

    with topology("fail").test() as driver, pytest.raises(ProcessingError, match="in a timer"):
        driver.topic("numbers").pipe(1, key="k", time_ms=1)
    with topology(DeadLetter(DEAD)).test() as driver:
        for time_ms in (1, 10, 20, 30):
            driver.topic("numbers").pipe(1, key="k", time_ms=time_ms)

        assert [record.value for record in driver.topic("ticks").read_all()] == [10, 30]
        assert driver.dropped_total == 2
        assert driver.topic("dead").is_empty


def test_an_unknown_policy_is_refused() -> None:
    """A word that is misspelled would mean to fail, or to lose."""
    with pytest.raises(InvalidTypeError, match="'skip'"):
        halves("ignore")


@pytest.mark.spec("PRC-99")
@pytest.mark.parametrize("policy", ["skip", DeadLetter(DEAD)])
@pytest.mark.parametrize("batches", [False, True])
def test_a_store_that_cannot_be_read_fails_the_task_whatever_the_policy(
    policy: Any, batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record was dropped as if it were to blame, with its update, for as long as it lasted."""
    broken: list[bool] = []

    def failing(name: str) -> Any:
        read = getattr(MemoryEngine, name)

        def read_or_fail(*arguments: Any) -> Any:
            if broken:
                raise StorageError("cannot read the database: Input/output error")
            return read(*arguments)

        return read_or_fail

    for name in ("get", "get_many"):
        monkeypatch.setattr(MemoryEngine, name, failing(name))
    topology = Topology("counting", errors=policy)
    kept = topology.stream(NUMBERS).filter(lambda record: record.value > 0)
    counts = kept.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    counts.to(Topic("counted", key=ss.utf8, value=ss.int64))
    with topology.test() as driver:
        numbers = driver.topic("numbers")
        numbers.pipe(4, key="k", time_ms=1)
        if batches:
            driver.to_batches(3, least_column_rows=1)
        broken.append(True)
        with pytest.raises(ProcessingError, match=r"'numbers', partition 0, offset 1") as raised:
            numbers.pipe_all([Record(f"other-{number}", 4, 2) for number in range(3)])

        assert isinstance(raised.value.__cause__, StorageError)


@pytest.mark.spec("PRC-99")
def test_a_registry_of_schemas_that_is_down_is_no_failure_of_records() -> None:
    """Each record that came meanwhile was dropped, as one whose bytes are no value."""

    class Registered(type(ss.int64)):  # type: ignore[misc]  # of a class that is not public
        name = "registered"

        def decode(self, data: bytes) -> int:
            raise StorageError("the registry http://schemas does not answer: refused")

    serde: Any = Registered()
    numbers = Topic("numbers", key=ss.utf8, value=serde)
    topology = Topology("registered", errors="skip")
    topology.stream(numbers).map_values(str).to(OUT)
    with (
        topology.test() as driver,
        pytest.raises(ProcessingError, match="the record is not to blame"),
    ):
        driver.topic("numbers").pipe_bytes(Record(b"k", b"7", 1))
