"""Engines with options of their own, and with types of their own: what the suite makes of them."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from statestores_conformance import OpenEngine
from statestores_conformance.engine.lifecycle.forks import ForkTests
from statestores_conformance.engine.lifecycle.locks import EngineLockTests, EngineOpeningTests
from statestores_conformance.engine.reading.reads import EnginePointReadTests
from statestores_conformance.faults.crash_tests import EngineCrashTests
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.openers import options_of


@pytest.fixture(autouse=True)
def particular(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give `particular_engines`, which this process and its children can import."""
    here = str(Path(__file__).parent / "kit")
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", here)
    import particular_engines  # type: ignore[import-not-found]  # noqa: PLC0415  # just made so

    return particular_engines


class TestOptionsReachEveryProcess:
    """What an engine needs to be opened, every process that the suite starts has as well.

    The lock holder, the program that forks and the processes that are killed once opened the engine
    with its defaults: ``statestores conformance BACKEND --option url=...`` failed for a backend
    that has no default, and for one that has it proved something else.
    """

    @pytest.fixture
    def open_engine(self, particular: Any) -> OpenEngine:
        """Open the engine that has no defaults, as the runner does it with ``--option``."""
        return partial(particular.GuardedEngine.open, options=particular.SECRET)

    TestOpening = EngineOpeningTests
    TestLocks = EngineLockTests
    TestForks = ForkTests

    def test_the_killed_processes_have_them(self, open_engine: OpenEngine, tmp_path: Path) -> None:
        """At a failpoint each, as the suite kills them."""
        with open_engine(tmp_path / "engine") as engine:
            EngineCrashTests._kill_at_failpoints(  # what its tests call
                engine, open_engine, "key-value", tmp_path, 1
            )


def test_options_are_found_in_a_partial() -> None:
    """Of several around each other the outermost wins; what JSON does not know is text."""
    inner: Any = partial(dict, options={"a": "1", "b": Path("x")})

    assert options_of(partial(inner, options={"a": 2, "b": Path("x")})) == {"a": 2, "b": "x"}
    assert options_of(dict) == {}


@for_each("call", ["get", "get_many", "first", "scan", "scan in reverse"])
@pytest.mark.parametrize(
    ("convert", "name"),
    [
        (lambda value: value.decode(), "str"),
        (bytearray, "bytearray"),
        (memoryview, "memoryview"),
    ],
    ids=["str", "bytearray", "memoryview"],
)
def test_what_only_looks_like_bytes_is_said_in_a_sentence(
    particular: Any, monkeypatch: pytest.MonkeyPatch, call: str, convert: Any, name: str
) -> None:
    """A ``bytearray`` equals ``bytes`` and changes under its reader: the type is judged."""
    monkeypatch.setattr(particular.LookAlikeEngine, "call", call)
    monkeypatch.setattr(particular.LookAlikeEngine, "convert", staticmethod(convert))
    sentence = rf"^{call.split(maxsplit=1)[0]}\(\) returned a {name}, expected bytes$"
    with (
        particular.LookAlikeEngine.open("unused") as engine,
        pytest.raises(pytest.fail.Exception, match=sentence),
    ):
        EnginePointReadTests().test_values_are_plain_bytes(engine)


def test_an_engine_that_returns_bytes_passes(particular: Any) -> None:
    """Without a call to be wrong at, the same engine is sound."""
    with particular.LookAlikeEngine.open("unused") as engine:
        EnginePointReadTests().test_values_are_plain_bytes(engine)

        assert engine.get(b"k") == b"v"
