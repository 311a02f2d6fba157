"""Keys of any length in front of other fields of a row's key, in order and never confused.

Each zero byte of the key is followed by an ``FF``, and two zero bytes end it: they sort below
everything that can follow within a key.
"""


def escape(key: bytes) -> bytes:
    r"""Return *key* so that a terminator of two zero bytes sorts it before its extensions.

    >>> escape(b"a\x00b")
    b'a\x00\xffb'
    """
    return key.replace(b"\x00", b"\x00\xff")


def unescape(escaped: bytes) -> bytes:
    """Return the key that `escape` made *escaped* of."""
    return escaped.replace(b"\x00\xff", b"\x00")
