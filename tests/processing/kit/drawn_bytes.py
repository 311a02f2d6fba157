"""Long lists of small choices for random tests, drawn as bytes.

Hypothesis keeps an account of each draw, and a list of thirty tuples has over a hundred: more work
than many a test does with them. One string of bytes is one draw. Zeros are the first choices.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st


def drawn_lists(
    choices: Sequence[Sequence[Any]], *, min_size: int, max_size: int
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Return lists of tuples that have one of each of *choices*, of which there are up to 256."""
    width = len(choices)
    assert all(0 < len(each) <= 256 for each in choices)

    def read(data: bytes) -> list[tuple[Any, ...]]:
        return [
            tuple(
                each[data[at + place] * len(each) >> 8]  # all equally often, and zero the first
                for place, each in enumerate(choices)
            )
            for at in range(0, len(data) // width * width, width)
        ]

    return st.binary(min_size=width * min_size, max_size=width * max_size).map(read)
