"""Options that name partitions of a store: those that it does not have are refused."""

from collections.abc import Mapping

from statestores.errors import InvalidOptionError


def check_partitions(
    option: str,
    named: Mapping[int, object] | tuple[int, ...] | int | str | None,
    store: str,
    partitions: int,
) -> None:
    """Accept what *option* has *named*, if *store* has all of it among its *partitions*.

    Numbers of partitions, or something for each of them; what is for all partitions names none.

    Raises:
        InvalidOptionError: It does not have one. What is said of that one would be ignored, and the
            others would be read or written as if nothing were said of them.
    """
    numbers = sorted(named) if isinstance(named, Mapping | tuple) else []
    if strangers := [number for number in numbers if not 0 <= number < partitions]:
        raise InvalidOptionError(
            f"the option {option!r} names the partition {strangers[0]}, and the store {store!r} "
            f"has the partitions 0 to {partitions - 1}"
        )
