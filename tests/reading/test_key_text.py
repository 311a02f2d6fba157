"""Keys as people write them."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError
from statestores.reading.key_text import parse_key


@pytest.mark.spec("SRV-11")
def test_a_number_is_one_in_digits(subtests: pytest.Subtests) -> None:
    """`statestores get counts 1_0`, and `key=1_0` over HTTP, gave the value of the key 10.

    Python's own reading of numbers was taken: with underscores, digits of any script, and white
    space. A key of text, mistaken for a number's, got an answer instead of a refusal.
    """
    written: list[tuple[ss.Serde[Any], str, float]] = [
        (ss.int64, "-12", -12),
        (ss.int64_sorted, "+7", 7),
        (ss.float64, "1e-3", 0.001),
    ]
    for serde, good, number in written:
        store = ss.KeyValue("counts", key=serde)
        assert parse_key(good, store, is_hex=False) == serde.encode(number)
        for text in ("1_0", " 10", "10\n", "\u0661"):
            with (
                subtests.test(serde=serde.name, text=text),
                pytest.raises(InvalidArgumentError, match="keys are"),
            ):
                parse_key(text, store, is_hex=False)
