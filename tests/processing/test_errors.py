"""Records that cannot be decoded, processed or encoded: fail, skip, dead letters."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError, ProcessingError, SerializationError
from statestores.processing import (
    DeadLetter,
    ErrorPolicy,
    Processor,
    Record,
    Topic,
    Topology,
)

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
    with halves("fail").test() as driver:
        driver.topic("numbers").pipe(4, key="k", time_ms=1)
        with pytest.raises(ProcessingError, match=r"'divide' failed at 'numbers', .*offset 1") as e:
            driver.topic("numbers").pipe(0, key="k")
        assert isinstance(e.value.__cause__, ZeroDivisionError)
        with pytest.raises(ProcessingError, match=r"'others' failed .*offset 2") as e:
            driver.topic("numbers").pipe(5, key="k")
        assert isinstance(e.value.__cause__, SerializationError)
        with pytest.raises(ProcessingError, match=r"'source-numbers' failed .*offset 3"):
            driver.topic("numbers").pipe_bytes(bad_bytes())


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


def test_an_unknown_policy_is_refused() -> None:
    """A word that is misspelled would mean to fail, or to lose."""
    with pytest.raises(InvalidTypeError, match="'skip'"):
        halves("ignore")
