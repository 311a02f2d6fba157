"""Relations between a workload and a changed one: what the change does to every answer.

Other keys in the same order, times that are all later, writes in another order, or additional ones
that are overwritten: what comes out is known from what came out before, and from nothing else.
"""

from typing import Any

import pytest

from statestores_conformance.relations import Read, Subject, TimedKind, Trial, Write
from statestores_conformance.relations.kinds import Form
from statestores_conformance.scripts.script import Name

_PREFIXES = (b"\x00", b"\xff\xff", b"a\x00\xff", b"\x00\x00\x01", b"k" * 300)
"""Prefixes for the keys of a workload: what an encoding escapes, or cannot count. Each trial has
them all: drawn, the one that an engine cannot bear would not come up in a few trials."""

_LATER_MS = (200, 2**31 - 30, 2**32 - 30, 2**53 - 7, 2**62)
"""Across the limits of bytes, of the integers of other languages, and of what a double holds. Each
trial has them all."""

_HIGHEST_MS = 2**63 - 1


class TransformationRelationTests:
    """Other keys, another order, and writes that others make void."""

    @pytest.mark.spec("KVS-7", "KVS-9", "VRS-12", "WIN-11", "WIN-12", "SES-11", "SES-13")
    def test_keys_may_have_any_prefix(self, subject: Subject) -> None:
        """With one prefix before all of them, keys have the same values in the same order."""

        def relation(trial: Trial) -> None:
            plain = trial.open("plain")
            prefixed = [(each, trial.open(f"prefixed{at}")) for at, each in enumerate(_PREFIXES)]
            for batch in trial.batches():
                trial.write(plain, batch)
                trial.commit(plain)
                for prefix, store in prefixed:
                    trial.write(store, [_write_under(prefix, write) for write in batch])
                    trial.commit(store)
            for read, expected in trial.all_answers(plain):
                has_keys = read.form is Form.ITERATOR and read.method not in trial.kind.without_keys
                for prefix, store in prefixed:
                    wanted = expected
                    if has_keys:
                        wanted = trial.script.let("wanted", "under", expected, prefix)
                    trial.answers(wanted, store, _read_under(prefix, read))

        subject.holds(relation)

    @pytest.mark.spec("KVS-1", "VRS-6", "WIN-5", "SES-2", "TKV-2", "COM-24")
    def test_writes_of_different_keys_commute(self, subject: Subject) -> None:
        """If nothing is late, only the order of the writes of each key counts."""

        def relation(trial: Trial) -> None:
            lasting = trial.kind.lasting(trial.specification)
            one, other = (trial.open(name, specification=lasting) for name in ("one", "other"))
            for batch in trial.batches():
                backwards = trial.chance("from the last key to the first")
                trial.write(one, batch)
                trial.write(other, sorted(batch, key=_key_of, reverse=backwards))
                if trial.chance("commit"):
                    trial.commit(one)
                    trial.commit(other)
            trial.agree(other, one)
            trial.commit(one)
            trial.commit(other)
            trial.agree(other, one)

        subject.holds(relation)

    @pytest.mark.spec("KVS-1", "VRS-4", "WIN-2", "SES-2", "TKV-2", "COM-31")
    def test_what_is_overwritten_leaves_no_trace(self, subject: Subject) -> None:
        """A write just after one that it makes void is like that write alone, in a replay too."""

        def relation(trial: Trial) -> None:
            straight, twice, copy = trial.open("straight"), trial.open("twice"), trial.open("copy")
            log = []
            for batch in trial.batches():
                trial.write(straight, batch)
                trial.commit(straight)
                for write in batch:
                    void = trial.kind.void(write, trial.specification)
                    if void is not None:
                        trial.write(twice, [void])
                        if trial.chance("commit"):
                            log.append(trial.commit(twice))
                    trial.write(twice, [write])
                log.append(trial.commit(twice))
            trial.agree(twice, straight)
            trial.replay(copy, log)
            trial.agree(copy, straight)

        subject.holds(relation)


class TimeRelationTests:
    """Other times, and other retentions, for the kinds that have them."""

    @pytest.mark.spec("VRS-3", "VRS-9", "WIN-3", "WIN-8", "SES-3", "SES-8", "TTL-1", "TKV-5")
    def test_nothing_depends_on_when_time_begins(self, subject: Subject) -> None:
        """With every time later by one amount, every answer is later by it, and otherwise equal."""

        def relation(trial: Trial) -> None:
            early = trial.open("early")
            later = [(each, trial.open(f"late{at}")) for at, each in enumerate(_LATER_MS)]
            for batch in trial.batches():
                trial.write(early, batch)
                trial.commit(early)
                for ms, store in later:
                    trial.write(store, [_write_later(ms, write) for write in batch])
                    trial.commit(store)
            for read, expected in trial.all_answers(early):
                for ms, store in later:
                    wanted = trial.script.let("wanted", "later", expected, ms)
                    trial.answers(wanted, store, _read_later(ms, read))

        subject.holds(relation)

    @pytest.mark.spec("VRS-10", "VRS-11", "WIN-8", "SES-8", "TTL-1", "TTL-2")
    def test_a_retention_takes_away_and_nothing_else(self, subject: Subject) -> None:
        """A store shows what one that keeps everything shows above the horizon."""

        def relation(trial: Trial) -> None:
            kind = trial.kind
            assert isinstance(kind, TimedKind)
            short = trial.open("short")
            long = trial.open("long", specification=kind.lasting(trial.specification))
            for batch in trial.batches():
                for write in filter(None, map(kind.judged, batch)):
                    answer = trial.script.do(f"{short}.{write.method}", *write.arguments)
                    if getattr(answer, "accepted", True):
                        trial.write(long, [write])
                for store in (short, long):
                    if trial.chance("commit"):
                        trial.commit(store)
            _shows_what_is_recent(trial, kind, short, long)
            trial.commit(short)
            _shows_what_is_recent(trial, kind, short, long)

        subject.holds(relation)


def _shows_what_is_recent(trial: Trial, kind: TimedKind, short: Name, long: Name) -> None:
    """Check that *short* shows what *long* shows above the horizon of *short*."""
    stream_time_ms = trial.script.value(short).stream_time_ms or 0
    for alike in kind.recent(stream_time_ms - kind.retention_ms(trial.specification)):
        trial.are_alike(short, long, alike)


def _key_of(write: Write) -> bytes:
    key: bytes = write.arguments[0]
    return key


def _write_under(prefix: bytes, write: Write) -> Write:
    return write._replace(arguments=(prefix + _key_of(write), *write.arguments[1:]))


def _read_under(prefix: bytes, read: Read) -> Read:
    return read._replace(arguments=tuple(_under(prefix, value) for value in read.arguments))


def _under(prefix: bytes, value: Any) -> Any:
    """Return an argument of a read, in which any bytes are a key."""
    if isinstance(value, list):
        return [_under(prefix, part) for part in value]
    return prefix + value if isinstance(value, bytes) else value


def _write_later(ms: int, write: Write) -> Write:
    return write._replace(arguments=tuple(_later(ms, value) for value in write.arguments))


def _read_later(ms: int, read: Read) -> Read:
    return read._replace(arguments=tuple(_later(ms, value) for value in read.arguments))


def _later(ms: int, value: Any) -> Any:
    """Return an argument of a call, in which any ``int`` is a time."""
    return min(value + ms, _HIGHEST_MS) if isinstance(value, int) else value
