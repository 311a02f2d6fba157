"""What changes of windows and sessions must be before a store takes them."""

from collections.abc import Sequence

from statestores.errors import InvalidArgumentError
from statestores.semantics.every_kind.arguments import (
    check_keys,
    check_lengths,
    check_times,
    check_values,
)
from statestores.spi.records import Changes
from statestores.spi.values import as_list


def columns_of_windows(
    changes: Changes, store: str, *, has_number: bool
) -> tuple[list[bytes], list[bytes | None], list[int], list[int]]:
    """Return keys, values, starts and numbers of *changes* to the window store named *store*.

    There are numbers if a window *has_number* for each of its values.

    Raises:
        InvalidTypeError, InvalidArgumentError: The store cannot have such changes.
    """
    keys, values = as_list("keys", changes.keys), as_list("values", changes.values)
    check_keys(keys)
    check_values(values)
    starts = times_of("times_ms", store, changes.times_ms)
    if not has_number:
        if changes.sequences is not None:
            raise InvalidArgumentError(
                f"the changes carry sequences, and {store!r} retains no duplicates"
            )
        check_lengths(keys=keys, values=values, times_ms=starts)
        return keys, values, starts, []
    carried = changes.sequences if keys else []
    sequences = times_of("sequences", store, carried)
    check_lengths(keys=keys, values=values, times_ms=starts, sequences=sequences)
    if None in values:
        raise InvalidArgumentError(
            f"the changes carry a deletion, and {store!r} retains duplicates: it has none"
        )
    return keys, values, starts, sequences


def times_of(name: str, store: str, times: Sequence[int] | None) -> list[int]:
    """Return the column *name* of changes, every value of which is a time.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is not, or the store needs a column that the
            changes lack.
    """
    if times is None:
        raise InvalidArgumentError(f"the changes carry no {name}, and {store!r} needs them")
    listed = as_list(name, times)
    check_times(name, listed)
    return listed
