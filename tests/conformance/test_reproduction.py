"""A failed model leaves a file behind that fails in the same way, without Hypothesis."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from statestores.spi import KeyValue
from statestores_conformance.models import KeyValueMachine, run_machine
from statestores_conformance.scripts.reproduction import DIRECTORY_VARIABLE, write_reproduction
from statestores_conformance.scripts.script import Script
from statestores_conformance.scripts.script_helpers import HELPERS
from statestores_conformance.subjects.openers import StoreOnEngine, expression_of
from statestores_memory import MemoryEngine

_BROKEN = '''\
import pytest
from statestores_conformance import BackendTests, OpenEngine
from statestores_memory import MemoryEngine


class BrokenEngine(MemoryEngine):
    """Takes the end of a range for a part of it."""

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return super().last(start, None if stop is None else stop + b"\\x00")


class ForgetfulEngine(MemoryEngine):
    """Deletes nothing."""

    def apply(self, batch, durability) -> None:
        kept = {key: value for key, value in batch.items() if value is not None}
        super().apply(kept, durability)


class TestBroken(BackendTests):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return BrokenEngine.open


class TestForgetful(BackendTests):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return ForgetfulEngine.open
'''

# Shrinking is Hypothesis's own, and takes its time.
_CONFTEST = """\
from hypothesis import Phase, settings

pytest_plugins = ["statestores_conformance"]
settings.register_profile("quick", phases=[Phase.generate], deadline=None, derandomize=False)
settings.load_profile("quick")
"""

_SOUND = "statestores_memory:MemoryEngine.open"


def _run(*arguments: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, DIRECTORY_VARIABLE: str(cwd / "found")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("TestBroken::TestEngine", marks=pytest.mark.long),
        "TestForgetful::TestKeyValueStore",
    ],
)
def test_a_failed_model_leaves_a_file_that_fails_alike(tmp_path: Path, model: str) -> None:
    """The file alone shows the broken engine's failure, and passes with a sound engine."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_broken.py").write_text(_BROKEN)
    chosen = [f"test_broken.py::{model}::TestModel", "--hypothesis-seed=7"]
    tests = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, cwd=tmp_path)
    written = re.findall(r"reproduction: (\S+\.py)", tests.stdout)

    assert tests.returncode == 1, tests.stdout
    assert "seed 7: run again with --hypothesis-seed=7" in tests.stdout
    assert "state.teardown()" in tests.stdout, "Hypothesis shows the steps"
    assert len(set(written)) == 1
    assert Path(written[0]).parent == tmp_path / "found"
    code = Path(written[0]).read_text("utf-8")
    assert "import hypothesis" not in code
    assert "import pytest" not in code
    # The tests' directory is not the working directory: the file knows where the engine is.
    alone = _run(written[0], cwd=tmp_path / "found")
    assert alone.returncode == 1, alone.stdout + alone.stderr
    # A store notices by itself that an engine deletes nothing; a wrong result it does not.
    assert re.search(r"^(AssertionError|.*StoreCorruptedError)", alone.stderr, re.MULTILINE)
    last_step = code.rstrip().splitlines()[-1].strip()
    assert last_step in alone.stderr
    sound = _run(written[0], _SOUND, cwd=tmp_path / "found")
    assert sound.returncode == 0, sound.stdout + sound.stderr


def test_a_sound_engine_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what failed is written down."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "found"))
    opener = StoreOnEngine(MemoryEngine.open)
    run_machine(lambda: KeyValueMachine(opener, tmp_path), persistent=True)

    assert not (tmp_path / "found").exists()


def test_an_opener_without_a_name_has_to_be_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closure cannot be found again; the file says so, and takes the name of another opener."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))

    def open_engine(path: Path) -> MemoryEngine:
        return MemoryEngine.open(path)

    opener = StoreOnEngine(open_engine)
    script = Script(open_store=opener)
    store = script.let("store", "open_store", tmp_path / "store", KeyValue("store"))
    script.do(f"{store}.put", b"k", b"v" * 100)
    with pytest.raises(AssertionError):
        script.gives(None, f"{store}.get", b"k")
    script.value(store).close()
    path = write_reproduction(script, title="a test", openers={"open_store": opener}, seed=7)
    unnamed = _run(path, cwd=tmp_path)
    named = _run(path, _SOUND, cwd=tmp_path)

    assert "b'v' * 100" in path.read_text("utf-8")
    assert "with seed 7" in path.read_text("utf-8")
    assert "has no name; say MODULE:OPENER" in unnamed.stderr
    assert "AssertionError: b'vvv" in named.stderr


def test_a_script_with_helpers_runs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has all that the helpers need: once it lacked ``Any``, and failed before a step."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    opener = StoreOnEngine(MemoryEngine.open)
    script = Script(open_store=opener, **HELPERS)
    names = [
        script.let("store", "open_store", tmp_path / name, KeyValue("store"))
        for name in ("source", "target")
    ]
    source, target = names
    script.do(f"{source}.put", b"k", b"v" * 100)
    script.do(f"{source}.commit", {})
    script.do("load_content", target, source, 1, commit=True)
    with pytest.raises(AssertionError):
        script.gives(None, f"{target}.get", b"k")
    for name in names:
        script.value(name).close()
    path = write_reproduction(script, title="a test", openers={"open_store": opener})

    assert "AssertionError: b'vvv" in _run(path, cwd=tmp_path).stderr


def test_options_of_an_opener_are_written_down() -> None:
    """An opener with options of its own opens with them again."""
    expression = expression_of(functools.partial(MemoryEngine.open, options={"a": "1"}))

    assert expression == (
        "functools.partial(pkgutil.resolve_name('statestores_memory.engine:MemoryEngine.open'), "
        "options={'a': '1'})"
    )
