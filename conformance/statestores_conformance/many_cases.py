"""Many cases as one test: for reads and refusals, which leave what they are given unchanged."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of *cases*, with the same fixtures; *names* are those of its arguments.

    It is written as ``pytest.mark.parametrize`` is. That would make each case a test, which opens a
    store for each and takes ten times as long as the check itself. A note on the error says which
    case failed.
    """
    arguments = [names] if isinstance(names, str) else list(names)
    rows = [case.values if hasattr(case, "marks") else case for case in cases]

    def of_all(test: Test) -> Test:
        @wraps(test)
        def run(*fixtures: Any, **named: Any) -> None:
            for row in rows:
                values = [row] if isinstance(names, str) else row
                case = dict(zip(arguments, values, strict=True))
                try:
                    test(*fixtures, **named, **case)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {case!r}")
                    raise

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # read by pytest
        return cast("Test", run)

    return of_all
