"""Paths: taken as they are written, or refused by the character that cannot be one of them."""

import re
import secrets
import string
from pathlib import Path

import pytest

from statestores.errors import InvalidArgumentError
from statestores.spi import Durability, Engine
from statestores_conformance.promises import skip_because_promised, skip_unless_promised
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    pairs_of,
)

_IN_EVERY_PATH = frozenset(string.ascii_letters + string.digits + " ._-/")


_BATCHES, _VALUE_BYTES = 50, 100_000
"""More than the first log of some engines may have."""


class EnginePathTests(EngineFixtures):
    """In which directories an engine opens."""

    @pytest.fixture
    def refused(self, open_engine: OpenEngine, tmp_path: Path) -> str:
        """Return the characters that the engine declares as refused."""
        with open_engine(tmp_path / "asked") as engine:
            return engine.capabilities.refused_in_paths

    @pytest.mark.spec("ENG-17", "ENG-42")
    @pytest.mark.parametrize(
        "name", ["with space", "quote'\"", "50%20off", "a?x=1&y", "y#z", "größe", "a;b", "a\\b"]
    )
    def test_a_path_may_hold_any_text(
        self, open_engine: OpenEngine, refused: str, name: str, tmp_path: Path
    ) -> None:
        """Spaces, quotes, percent signs and letters beyond ASCII are part of a path."""
        _skip_if_refused(name, refused)
        with open_engine(tmp_path / name) as engine:
            engine.apply({b"k": name.encode()}, Durability.PROCESS_CRASH)

            assert engine.get(b"k") == name.encode()

    @pytest.mark.spec("ENG-17")
    def test_two_directories_are_two_engines(self, engines: Engines) -> None:
        """What is applied to one is not seen in the other."""
        one, other = engines.open("one"), engines.open("other")
        one.apply({b"k": b"v", b"l": b"v"}, Durability.PROCESS_CRASH)

        assert [one.get(b"k"), other.get(b"k"), other.get_many([b"k"])] == [b"v", None, [None]]
        assert pairs_of(other) == []
        other.apply({b"k": b"w"}, Durability.PROCESS_CRASH)

        assert [one.get(b"k"), other.get(b"k")] == [b"v", b"w"]
        assert [one.get(b"l"), other.get(b"l")] == [b"v", None]
        assert [one.first(b""), other.first(b"")] == [(b"k", b"v"), (b"k", b"w")]

    @pytest.mark.spec("ENG-17", "ENG-15", "ENG-42")
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("50%20off", "50 off"),
            ("a?mode=memory", "a"),
            ("a#b", "a"),
            ("a+b", "a b"),
            ("a;b", "a"),
            ("a\\b", "ab"),
        ],
    )
    def test_paths_that_look_alike_are_two_engines(
        self, engines: Engines, refused: str, one: str, other: str
    ) -> None:
        """A path is taken as it is: nothing in it is an escape, a query or a comment."""
        _skip_if_refused(one, refused)
        first, second = engines.open(one), engines.open(other)
        first.apply({b"k": b"v"}, Durability.PROCESS_CRASH)

        assert pairs_of(second) == []
        assert pairs_of(first) == [(b"k", b"v")]

    @pytest.mark.spec("ENG-49", "ENG-15")
    def test_a_relative_path_is_that_of_the_opening(
        self,
        open_engine: OpenEngine,
        persistent_engine: Engine,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Files that an engine makes later are where the others are, not where the process went.

        There, another directory may have the same name.
        """
        home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
        for place in (home, elsewhere / "relative"):
            place.mkdir(parents=True)
        monkeypatch.chdir(home)
        with open_engine(Path("relative")) as engine:
            engine.apply({b"before": b"v"}, durability_of(engine))
            monkeypatch.chdir(elsewhere)
            for number in range(_BATCHES):
                batch = {b"%02d" % number: secrets.token_bytes(_VALUE_BYTES)}
                engine.apply(batch, Durability.PROCESS_CRASH)
            engine.apply({}, durability_of(engine))
            content = pairs_of(engine)
            with engine.snapshot() as snapshot:
                assert pairs_of(snapshot) == content

        assert list(elsewhere.rglob("*")) == [elsewhere / "relative"]
        assert [key for key, _ in content] == [*(b"%02d" % n for n in range(_BATCHES)), b"before"]
        with open_engine(home / "relative") as again:
            assert pairs_of(again) == content

    @pytest.mark.spec("ENG-42")
    def test_what_paths_may_not_hold_is_refused_by_name(
        self, open_engine: OpenEngine, refused: str, tmp_path: Path
    ) -> None:
        """In the directory itself, above it and behind a link; and nothing is created."""
        skip_because_promised("every path", made=not refused)
        for character in refused:
            odd = f"a{character}b"
            above = tmp_path / "above" / odd
            above.mkdir(parents=True)
            (tmp_path / "link").symlink_to(above)
            for directory in (tmp_path / odd, above / "engine", tmp_path / "link" / "engine"):
                with pytest.raises(InvalidArgumentError, match=re.escape(character)):
                    open_engine(directory)

                assert not directory.exists()
            (tmp_path / "link").unlink()

    @pytest.mark.spec("ENG-42")
    def test_what_every_path_holds_cannot_be_refused(self, engine: Engine) -> None:
        """Letters, digits, spaces, dots, hyphens, underlines and slashes."""
        assert set(engine.capabilities.refused_in_paths) & _IN_EVERY_PATH == set()


def _skip_if_refused(path: str, refused: str) -> None:
    found = sorted(set(path) & set(refused))
    skip_unless_promised(f"paths with {' '.join(found)} (refused_in_paths)", made=not found)
