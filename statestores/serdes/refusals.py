"""What a serde says when it refuses a value or bytes: the same sentence in all of them (SRD-4)."""

from statestores.errors import SerializationError

_SHOWN_CHARACTERS = 200
"""A value may be megabytes long, and the message goes into a log."""

_SHOWN_BITS = 4_096
"""Python refuses to print integers of more than 4,300 digits; nobody reads those of 1,200."""


def refused_value(serde: str, value: object, expected: str) -> SerializationError:
    """Return the error for a *value* that *serde* does not take; *expected* is what it takes."""
    return SerializationError(
        f"the serde {serde!r} takes {expected}, got {_shown(value)} of type {_type_name(value)}"
    )


def refused_bytes(serde: str, data: object, reason: str) -> SerializationError:
    """Return the error for bytes that *serde* did not write, for a *reason*."""
    return SerializationError(
        f"the serde {serde!r} cannot read {_shown(data)}: {reason}; "
        "were they written with another serde?"
    )


def refused_column(serde: str, arrow_type: object, expected: str) -> SerializationError:
    """Return the error for an Arrow column of an *arrow_type* that *serde* does not take."""
    return SerializationError(
        f"the serde {serde!r} takes a column of {expected}, got one of {arrow_type}; cast it first"
    )


def _shown(value: object) -> str:
    """Return a representation of bounded length."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"


def _type_name(value: object) -> str:
    """Return the type's name, with its module when it is not a builtin: ``numpy.int64``."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
