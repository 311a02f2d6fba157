"""Folds on columns: from the aggregates before a batch and its values to the aggregates after.

A kernel gives, bit by bit, what the fold gives value by value, or raises `NotOnColumnsError`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from statestores.processing.columns.column import NotOnColumnsError, numbers_of
from statestores.processing.columns.groups import Groups
from statestores.serdes.mean_serde import Mean

Aggregates: TypeAlias = list[Any]
"""One for each group, as Python's values; ``None`` where there is none yet."""

Kernel: TypeAlias = Callable[[Groups, Aggregates, Any], Aggregates]
"""From groups, aggregates and values (an Arrow array, or a list) to the new aggregates."""

_SAFE = float(1 << 62)
_AnyNumbers: TypeAlias = npt.NDArray[Any]


def counted(groups: Groups, before: Aggregates, values: Any) -> Aggregates:
    """Add the number of rows to each count."""
    del values
    added: list[int] = np.bincount(groups.codes, minlength=groups.count).tolist()
    return [new if old is None else old + new for old, new in zip(before, added, strict=True)]


def summed(groups: Groups, before: Aggregates, values: Any) -> Aggregates:
    """Add the values to each sum, in their order."""
    numbers = _numbers(values)
    present = [each for each in before if each is not None]
    if present and numbers_of(present).dtype != numbers.dtype:
        raise NotOnColumnsError("sums and values are of different types")
    start = np.array([0 if each is None else each for each in before], numbers.dtype)
    if numbers.dtype == np.float64:
        return _float_sums(groups, start, numbers).tolist()  # type: ignore[no-any-return]
    reach = np.bincount(groups.codes, np.abs(numbers.astype(np.float64)), groups.count) + np.abs(
        start.astype(np.float64)
    )
    if reach.max(initial=0.0) >= _SAFE:
        raise NotOnColumnsError("a sum may need more than 64 bits")
    np.add.at(start, groups.codes, numbers)
    return start.tolist()  # type: ignore[no-any-return]


def added(groups: Groups, before: Aggregates, values: Any) -> Aggregates:
    """Add the values, beginning with the first one: as a sum does with whole numbers."""
    if _numbers(values).dtype == np.float64:
        raise NotOnColumnsError("a sum of floats that begins with the first one has another zero")
    return summed(groups, before, values)


def averaged(groups: Groups, before: Aggregates, values: Any) -> Aggregates:
    """Add the values and their number to each mean."""
    numbers = _numbers(values).astype(np.float64)
    start = np.array([0.0 if each is None else each[0] for each in before])
    totals = _float_sums(groups, start, numbers).tolist()
    counts = np.bincount(groups.codes, minlength=groups.count).tolist()
    return [
        Mean(total, count if old is None else old[1] + count)
        for old, total, count in zip(before, totals, counts, strict=True)
    ]


def reduced(ufunc: np.ufunc) -> Kernel:
    """Return the kernel that makes one value of all by *ufunc*, from the first on."""

    def kernel(groups: Groups, before: Aggregates, values: Any) -> Aggregates:
        numbers = _numbers(values)
        present = numbers_of([each for each in before if each is not None] or numbers[:1].tolist())
        if present.dtype != numbers.dtype:
            raise NotOnColumnsError("aggregates and values are of different types")
        if numbers.dtype == np.float64 and ufunc in (np.minimum, np.maximum):
            _check_order(numbers)
            _check_order(present)
        is_new = np.array([each is None for each in before], np.bool_)
        start = np.array([0 if each is None else each for each in before], numbers.dtype)
        firsts = groups.firsts[is_new]
        start[is_new] = numbers[firsts]
        is_first = np.zeros(len(numbers), np.bool_)
        is_first[firsts] = True
        rest = ~is_first
        ufunc.at(start, groups.codes[rest], numbers[rest])
        return start.tolist()  # type: ignore[no-any-return]

    return kernel


KERNELS: dict[str, Kernel] = {
    "count": counted,
    "sum": summed,
    "add": added,
    "mean": averaged,
    "min": reduced(np.minimum),
    "max": reduced(np.maximum),
}
"""By the names that folds give them."""


def kernel_of(name: str | np.ufunc) -> Kernel:
    """Return the kernel that a fold names."""
    return KERNELS[name] if isinstance(name, str) else reduced(name)


def _float_sums(groups: Groups, start: _AnyNumbers, numbers: _AnyNumbers) -> _AnyNumbers:
    """Return the sums: each beginning with its start, then value by value, as records do."""
    codes = np.concatenate([np.arange(groups.count), groups.codes])
    found: _AnyNumbers = np.bincount(codes, np.concatenate([start, numbers]), groups.count)
    return found


def _numbers(values: Any) -> _AnyNumbers:
    """Return *values* as int64 or float64."""
    if isinstance(values, Sequence):
        return numbers_of(values)
    array: _AnyNumbers = values.to_numpy(zero_copy_only=False)
    if array.dtype not in (np.int64, np.float64):
        raise NotOnColumnsError(f"{values.type} has no kernels")
    return array


def _check_order(numbers: _AnyNumbers) -> None:
    """Accept numbers of which the lesser one is always the same one.

    Raises:
        NotOnColumnsError: There is a NaN, or a negative zero.
    """
    if np.isnan(numbers).any() or (np.signbit(numbers) & (numbers == 0)).any():
        raise NotOnColumnsError("NaN and negative zero have no place in the order of numbers")
