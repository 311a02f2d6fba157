"""Metamorphic relations: what has to be equal, without a model that says what it is.

A kind of store says in `kinds` how it is written and read; `trials` makes up workloads and performs
them; the relations themselves are in ``relation_tests``, written once for every kind.
"""

from statestores_conformance.relations.key_value import KeyValueKind
from statestores_conformance.relations.kinds import Kind, Read, Split, Write
from statestores_conformance.relations.trials import Subject, Trial
from statestores_conformance.relations.versioned import VersionedKind

__all__ = [
    "KeyValueKind",
    "Kind",
    "Read",
    "Split",
    "Subject",
    "Trial",
    "VersionedKind",
    "Write",
]
