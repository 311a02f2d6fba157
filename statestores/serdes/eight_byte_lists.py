"""Lists of 64-bit numbers to and from lists of eight big-endian bytes, without a call for each.

A list that is not of such numbers throughout gives ``None``: value by value says what is wrong.
"""

import math
import sys
from array import array
from typing import Any, Literal

_WIDTH_BYTES = 8

_IS_LITTLE_ENDIAN = sys.byteorder == "little"

Code = Literal["q", "Q", "d"]
"""The numbers, as `array` calls them: signed, unsigned, floating-point."""


def packed_list(values: list[Any], code: Code) -> list[bytes] | None:
    """Return the bytes of *values*, ``None`` if one does not fit, or may be NaN.

    NaN has bits of which only some are written. Any in *values* makes their sum NaN.

    Requires: they are of the type of *code*.
    """
    if code == "d" and math.isnan(sum(values)):
        return None
    try:
        numbers = array(code, values)
    except OverflowError:
        return None
    if _IS_LITTLE_ENDIAN:
        numbers.byteswap()
    data = numbers.tobytes()
    return [data[start : start + _WIDTH_BYTES] for start in range(0, len(data), _WIDTH_BYTES)]


def unpacked_list(values: list[bytes], code: Code) -> list[Any] | None:
    """Return the numbers that *values* hold, ``None`` if one is not of eight bytes."""
    if set(map(len, values)) != {_WIDTH_BYTES}:
        return None
    numbers = array(code, b"".join(values))
    if _IS_LITTLE_ENDIAN:
        numbers.byteswap()
    return numbers.tolist()
