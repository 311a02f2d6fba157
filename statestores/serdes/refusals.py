"""What a serde says when it refuses a value or bytes: the same sentence in all of them (SRD-4)."""

from statestores.errors import SerializationError
from statestores.spi.shown import shown


def refused_value(serde: str, value: object, expected: str) -> SerializationError:
    """Return the error for a *value* that *serde* does not take; *expected* is what it takes."""
    return SerializationError(
        f"the serde {serde!r} takes {expected}, got {shown(value)} of type {_type_name(value)}"
    )


def refused_bytes(serde: str, data: object, reason: str) -> SerializationError:
    """Return the error for bytes that *serde* did not write, for a *reason*."""
    return SerializationError(
        f"the serde {serde!r} cannot read {shown(data)}: {reason}; "
        "were they written with another serde?"
    )


def not_eight_bytes(serde: str, data: object) -> SerializationError:
    """Return the error for *data* that is not exactly the 8 bytes that *serde* reads."""
    found = f", got {len(data)}" if isinstance(data, bytes) else ""
    return refused_bytes(serde, data, f"expected 8 bytes{found}")


def refused_column(serde: str, arrow_type: object, expected: str) -> SerializationError:
    """Return the error for an Arrow column of an *arrow_type* that *serde* does not take."""
    return SerializationError(
        f"the serde {serde!r} takes a column of {expected}, got one of {arrow_type}; cast it first"
    )


def _type_name(value: object) -> str:
    """Return the type's name, with its module when it is not a builtin: ``numpy.int64``."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
