"""How a message shows a value that somebody gave: short, and whatever it is."""

_CHARACTERS = 200
"""A value may be megabytes long, and the message goes into a log."""

_BITS = 4_096
"""Python refuses to print integers of more than 4,300 digits; nobody reads those of 1,200."""


def shown(value: object) -> str:
    """Return a representation of bounded length.

    >>> shown("a" * 300)[-20:], shown(1 << 5_000)
    ('... (302 characters)', 'an integer of 5001 bits')
    """
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep to show"
    except ValueError:  # Python's, of such an integer in it
        return f"a {type(value).__name__} with an integer of thousands of digits"
    if len(text) <= _CHARACTERS:
        return text
    return f"{text[:_CHARACTERS]}... ({len(text)} characters)"
