"""Keys and values that break encodings: edges, prefixes of each other, and sizes."""

import random

LONG_KEY_BYTES = 1024
"""The longest key that an engine accepts whatever limit it declares (ENG-38)."""

LONGEST_KEY_BYTES = 64 * 1024
"""The longest key that an engine without a limit accepts (ENG-25)."""

LARGEST_VALUE_BYTES = 10 * 1024 * 1024
"""The largest value that every engine accepts (ENG-25)."""

SHORT_KEYS: list[bytes] = sorted(
    {
        *(bytes([byte]) for byte in (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)),
        # Runs at the edges: what an escape or a "next prefix" gets wrong.
        *(edge * length for edge in (b"\x00", b"\xff") for length in (2, 3, 9)),
        b"\x00\x01",
        b"\x00\xff",
        b"\x00\xff\x00",
        b"\x01\x00",
        b"\xfe\xff",
        b"\xfe\xff\xff",
        b"\xff\x00",
        b"\xff\x00\xff",
        b"\xff\xfe",
        # Prefixes of each other, continued by both edges.
        b"a",
        b"a\x00",
        b"a\x00\x00",
        b"a\x00\x01",
        b"a\x00\xff",
        b"a\x01",
        b"a\xff",
        b"a\xff\x00",
        b"a\xff\xff",
        b"aa",
        b"ab",
        b"b",
        # What a collation takes for the same: case, accents, width, padding.
        b"A",
        b"AB",
        b"a ",
        "é".encode(),
        "e\u0301".encode(),
        "\uff41".encode(),
        # Digits and what looks like a separator.
        b"key/1",
        b"key|1",
        b"10",
        b"9",
        b" ",
        b"\n",
    }
)
"""Distinct short keys, none of them empty, in order."""

LONG_KEYS: list[bytes] = sorted(
    {
        b"k" * LONG_KEY_BYTES,
        b"k" * (LONG_KEY_BYTES - 1),
        b"k" * (LONG_KEY_BYTES - 1) + b"\x00",
        b"\x00" * LONG_KEY_BYTES,
        b"\xff" * LONG_KEY_BYTES,
    }
)
"""Distinct keys of a length that every engine accepts, which differ at their ends, in order."""

KEYS_AROUND_LIMITS: list[bytes] = sorted(
    b"k" * (length - 1) + end
    for limit in (64, 256, 512, LONG_KEY_BYTES - 1)
    for length in (limit - 1, limit, limit + 1)
    for end in (b"\x00", b"k", b"\xff")
)
"""Distinct keys as long as the limits of drivers, all with the same beginning, in order."""

KEYS: list[bytes] = sorted({*SHORT_KEYS, *LONG_KEYS})
"""All of them, in order."""


def keys_of(length: int) -> list[bytes]:
    """Return distinct keys of *length* bytes, and one byte shorter, in order.

    They differ at their ends, begin with both edges, and some of them cannot be compressed: a
    driver's limit may apply to the compressed key.
    """
    noise = random.Random(length).randbytes(length)  # noqa: S311  # not secret
    return sorted(
        {
            b"\x00" * length,
            *(b"k" * (length - 1) + end for end in (b"\x00", b"k", b"\xff")),
            b"k" * (length - 1),
            noise[:-1],
            *(noise[:-1] + bytes([end]) for end in (0, noise[-1] | 1, 0xFF)),
            b"\xff" * length,
        }
    )


VALUES: list[bytes] = [b"", b"\x00", b"\xff", bytes(range(256)), b"v" * 100]
"""Values that an encoding may confuse with absence or with each other."""
