"""Metamorphic relations: what must be equal, without a model that says what it is.

A kind of store says in `kinds` how it is written and read; `trials` makes up workloads and performs
them; the relations themselves are in ``relation_tests`` and the modules beside it, written once for
all kinds for which they make sense.
"""

from statestores_conformance.relations.key_value import KeyValueKind
from statestores_conformance.relations.kinds import Alike, Kind, Read, Split, TimedKind, Write
from statestores_conformance.relations.session import SessionKind
from statestores_conformance.relations.timestamped import TimestampedKind
from statestores_conformance.relations.trials import Subject, Trial
from statestores_conformance.relations.versioned import VersionedKind
from statestores_conformance.relations.window import WindowKind

ALL_KINDS: dict[str, Kind] = {
    "kv": KeyValueKind(),
    "timestamped": TimestampedKind(),
    "versioned": VersionedKind(),
    "window": WindowKind(),
    "session": SessionKind(),
}
"""One of each kind. A new one is entered here."""

__all__ = [
    "ALL_KINDS",
    "Alike",
    "KeyValueKind",
    "Kind",
    "Read",
    "SessionKind",
    "Split",
    "Subject",
    "TimedKind",
    "TimestampedKind",
    "Trial",
    "VersionedKind",
    "WindowKind",
    "Write",
]
