"""Steps that are recorded as they are performed, so that a file can perform them again.

A random test that fails leaves the author with a seed. A script leaves a Python file with exactly
the calls that were made, and what each had to give (see `reproduction`).

Invariant: what a step was given and had to give is not changed afterwards; it is turned into text
only on request, since nearly every script succeeds.
"""

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple

_SHORT_BYTES = 32


class Name(str):
    """A variable of a script, as an argument or as the first part of a call."""

    __slots__ = ()


class _Step(NamedTuple):
    """One statement, as a function that writes it down."""

    write: Callable[..., list[str]]
    details: tuple[Any, ...]


class Script:
    """A sequence of steps over named objects.

    A call is written ``"store.put"``, or ``"next"`` for a plain name.
    """

    def __init__(self, **names: object) -> None:
        """Begin with objects that the file that performs the script again has as well."""
        self._names: dict[str, Any] = {"next": next, "list": list, "getattr": getattr, **names}
        self._steps: list[_Step] = []
        self._counts: Counter[str] = Counter()
        self.failed = False
        """Whether a step has failed; what comes after it is performed but not recorded."""

    def do(self, call: str, *arguments: Any, **options: Any) -> Any:
        """Make a call, and return what it gives."""
        self._note(_write_call, call, arguments, options)
        return self._perform(call, arguments, options)

    def let(self, stem: str, call: str, *arguments: Any, **options: Any) -> Name:
        """Make a call, and give what it returns a name that begins with *stem*."""
        self._counts[stem] += 1
        name = Name(f"{stem}_{self._counts[stem]}")
        self._note(_write_let, name, call, arguments, options)
        self._names[name] = self._perform(call, arguments, options)
        return name

    def let_list(self, stem: str, call: str, *arguments: Any, **options: Any) -> Name:
        """Make a call that gives an iterator, and name the list of what it gives."""
        return self.let(stem, "list", self.let("iterator", call, *arguments, **options))

    def value(self, name: Name) -> Any:
        """Return what *name* stands for."""
        return self._names[name]

    def gives(self, expected: object, call: str, *arguments: Any, **options: Any) -> None:
        """Make a call that must give *expected*: a value, a `Name`, or a list of names."""
        self._note(_write_gives, expected, call, arguments, options)
        actual = self._perform(call, arguments, options)
        self._judge(actual, expected)

    def lists(
        self, expected: Sequence[object] | Name, call: str, *arguments: Any, **options: Any
    ) -> None:
        """Make a call that must give an iterator over *expected*."""
        self._note(_write_lists, expected, call, arguments, options)
        actual = self._perform(call, arguments, options, list)
        self._judge(actual, expected)

    def has(self, expected: object, attribute: str) -> None:
        """Read an attribute that must be *expected*."""
        self._note(_write_has, expected, attribute)
        owner, _, name = attribute.partition(".")
        actual = self._guarded(lambda: getattr(self._names[owner], name))
        self._judge(actual, expected)

    def fails(self, error: type[Exception], call: str, *arguments: Any, **options: Any) -> None:
        """Make a call that must raise *error*."""
        self._note(_write_fails, error, call, arguments, options)
        try:
            self._perform(call, arguments, options, expecting=error)
        except error:
            return
        self.failed = True
        raise AssertionError(f"{call} did not raise {error.__name__}")

    def lines(self) -> list[str]:
        """Return the statements up to the one that failed."""
        return [line for step in self._steps for line in step.write(*step.details)]

    def _note(self, write: Callable[..., list[str]], *details: Any) -> None:
        if not self.failed:
            self._steps.append(_Step(write, details))

    def _perform(
        self,
        call: str,
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        convert: Callable[[Any], Any] | None = None,
        expecting: type[Exception] | None = None,
    ) -> Any:
        owner, _, method = call.partition(".")
        target = self._names[owner]
        given = [self._resolved(value) for value in arguments]

        def perform() -> Any:
            found = getattr(target, method) if method else target
            result = found(*given, **options)
            return result if convert is None else convert(result)

        return self._guarded(perform, expecting)

    def _guarded(self, perform: Callable[[], Any], expecting: type[Exception] | None = None) -> Any:
        try:
            return perform()
        except BaseException as error:
            if expecting is None or not isinstance(error, expecting):
                self.failed = True
            raise

    def _judge(self, actual: object, expected: object) -> None:
        wanted = self._resolved(expected)
        if not operator.eq(actual, wanted):
            self.failed = True
        assert actual == wanted

    def _resolved(self, expected: object) -> object:
        """Return *expected*, or what its names stand for."""
        if type(expected) is Name:
            return self._names[expected]
        if type(expected) is list and expected and type(expected[0]) is Name:
            return [self._names[name] for name in expected]
        return expected


def source_of(value: object) -> str:
    """Return an expression that gives *value*; values of the contract are named as they are."""
    if isinstance(value, Name):
        return str(value)
    if type(value) is bytes:
        repeated = len(value) > _SHORT_BYTES and value == value[:1] * len(value)
        return f"{value[:1]!r} * {len(value)}" if repeated else repr(value)
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, PurePath):
        return f"directory / {value.name!r}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{type(value).__name__}({', '.join(map(source_of, value))})"
    if isinstance(value, tuple):
        return f"({''.join(f'{source_of(part)}, ' for part in value)})"
    if isinstance(value, list):
        return f"[{', '.join(map(source_of, value))}]"
    if type(value) is dict:
        return (
            "{" + ", ".join(f"{source_of(k)}: {source_of(part)}" for k, part in value.items()) + "}"
        )
    return repr(value)


def _call_text(call: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> str:
    parts = [*map(source_of, arguments), *(f"{k}={source_of(v)}" for k, v in options.items())]
    return f"{call}({', '.join(parts)})"


def _write_call(call: str, arguments: Any, options: Any) -> list[str]:
    return [_call_text(call, arguments, options)]


def _write_let(name: Name, call: str, arguments: Any, options: Any) -> list[str]:
    return [f"{name} = {_call_text(call, arguments, options)}"]


def _write_gives(expected: object, call: str, arguments: Any, options: Any) -> list[str]:
    text = _call_text(call, arguments, options)
    return [f"assert (got := {text}) == {source_of(expected)}, got"]


def _write_lists(expected: object, call: str, arguments: Any, options: Any) -> list[str]:
    text = _call_text(call, arguments, options)
    return [f"assert (got := list({text})) == {source_of(expected)}, got"]


def _write_has(expected: object, attribute: str) -> list[str]:
    return [f"assert (got := {attribute}) == {source_of(expected)}, got"]


def _write_fails(error: type[Exception], call: str, arguments: Any, options: Any) -> list[str]:
    return [
        "try:",
        f"    {_call_text(call, arguments, options)}",
        f"except {error.__name__}:",
        "    pass",
        "else:",
        f"    raise AssertionError('{call} did not raise {error.__name__}')",
    ]
