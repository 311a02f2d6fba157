"""The state machines of window and session stores, as tests of the author's class."""

from pathlib import Path

import pytest

from statestores.spi import Session, Window
from statestores_conformance.models.running import run_machine
from statestores_conformance.models.session_machine import SessionMachine
from statestores_conformance.models.window_machine import WindowMachine
from statestores_conformance.subjects.retained_stores import OpenSessionStore, OpenWindowStore


class WindowModelTests:
    """A window store does what a ``dict`` of keys and starts does."""

    @pytest.mark.spec("WIN-2", "WIN-3", "WIN-4", "WIN-5", "WIN-7", "WIN-8", "WIN-9", "WIN-10")
    @pytest.mark.spec("WIN-11", "WIN-12", "WIN-13", "WIN-16", "WIN-22", "WIN-23", "WIN-24")
    @pytest.mark.spec("COM-7", "COM-17", "COM-20", "COM-29", "COM-32", "COM-40")
    def test_any_sequence_of_operations(
        self, open_window_store: OpenWindowStore, tmp_path: Path
    ) -> None:
        """Writes, reads, commits, rollbacks, reopening and restoring, in any order."""
        _run(open_window_store, tmp_path, retain_duplicates=False)

    @pytest.mark.spec("WIN-3", "WIN-4", "WIN-6", "WIN-7", "WIN-8", "WIN-9", "WIN-10", "WIN-11")
    @pytest.mark.spec("WIN-12", "WIN-13", "WIN-16", "WIN-21", "WIN-24", "COM-20", "COM-40")
    def test_any_sequence_of_operations_with_duplicates(
        self, open_window_store: OpenWindowStore, tmp_path: Path
    ) -> None:
        """The same for a store that keeps every value of a window."""
        _run(open_window_store, tmp_path, retain_duplicates=True)


class SessionModelTests:
    """A session store does what a ``dict`` of keys, starts and ends does."""

    @pytest.mark.spec("SES-2", "SES-3", "SES-4", "SES-5", "SES-6", "SES-7", "SES-8", "SES-9")
    @pytest.mark.spec("SES-10", "SES-11", "SES-12", "SES-13", "SES-14", "SES-16", "SES-23")
    @pytest.mark.spec("SES-21", "SES-22", "COM-7", "COM-17", "COM-20", "COM-29", "COM-32", "COM-40")
    def test_any_sequence_of_operations(
        self, open_session_store: OpenSessionStore, tmp_path: Path
    ) -> None:
        """Writes, reads, commits, rollbacks, reopening and restoring, in any order."""
        with open_session_store(tmp_path / "probe", Session("store", retention_ms=1)) as probe:
            persistent = probe.persistent
        run_machine(lambda: SessionMachine(open_session_store, tmp_path), persistent=persistent)


def _run(open_store: OpenWindowStore, root: Path, *, retain_duplicates: bool) -> None:
    with open_store(root / "probe", Window("store", retention_ms=1, window_size_ms=1)) as probe:
        persistent = probe.persistent
    run_machine(
        lambda: WindowMachine(open_store, root, retain_duplicates=retain_duplicates),
        persistent=persistent,
    )
