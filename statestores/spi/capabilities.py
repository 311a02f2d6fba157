"""What an engine promises beyond the contract that all engines keep."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The optional promises of one engine (ENG-12).

    A field is named for the promise, as an adjective or as the thing that is there. ``False`` is
    always a legal value of one; what is not promised raises `CapabilityNotSupportedError` when it
    is asked for, and what is promised is effective.
    """

    persistent: bool = False
    """Data survives `close` and is found again by `open` at the same path."""

    durable_commit: bool = False
    """`Durability.POWER_LOSS` waits until the operating system reports the data on disk."""

    detects_corruption: bool = False
    """Damage to the engine's files is an error at open or at read, never wrong data."""

    native_checkpoint: bool = False
    """`Engine.checkpoint` copies the engine's files consistently and cheaply."""

    bulk_ingest: bool = False
    """`Engine.ingest` loads sorted pairs faster than batches do, atomically."""

    max_key_bytes: int | None = None
    """The length of the longest key that is accepted in any case, where the driver's limit is below
    the contract's 64 KiB; at least 1 KiB (ENG-38). ``None``, the contract's length, is the default:
    a limit is not a promise but a reservation, and an engine without one need not know that there
    are any."""

    refused_in_paths: str = ""
    """The characters of a path that `Engine.open` refuses, since the driver would take them for
    something else (ENG-42). A reservation as well; none is the default."""

    @property
    def promises(self) -> dict[str, bool]:
        """Return whether each optional promise is made, by its name; limits are none of them."""
        names = (field.name for field in fields(self) if field.name not in _RESERVATIONS)
        return {name: getattr(self, name) for name in names}


_RESERVATIONS = frozenset({"max_key_bytes", "refused_in_paths"})
