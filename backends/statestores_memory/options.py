"""The options of the memory backend: there are none, and naming one is an error."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """How a memory engine is opened. It has nothing to set."""
