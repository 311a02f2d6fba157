"""Hypothesis state machines that compare an engine or a store with an obvious model.

Each machine runs from one method of the author's class; nobody needs to know Hypothesis. The number
of examples follows the ``max_examples`` of the Hypothesis profile: half of it, or a tenth for
engines that go to disk.
"""

from statestores_conformance.models.engine import EngineMachine
from statestores_conformance.models.key_value import KeyValueMachine, KeyValueModel
from statestores_conformance.models.running import run_machine
from statestores_conformance.models.versioned import VersionedMachine, VersionedModel

__all__ = [
    "EngineMachine",
    "KeyValueMachine",
    "KeyValueModel",
    "VersionedMachine",
    "VersionedModel",
    "run_machine",
]
