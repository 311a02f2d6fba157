"""A restore in bulk and one record by record, of the same content."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from restored_rows import open_bare, rows_of

from statestores.arrow import restore
from statestores.arrow.restoring.row_sink import RowSink


@pytest.fixture
def rows_of_each_path(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """Restore in bulk and record by record, and return what the engines hold then."""

    def both(specification: Any, backend: str, directory: Path, **source: Any) -> tuple[Any, Any]:
        with open_bare(specification, backend, directory / "bulk") as store:
            restore(store, **source)
            in_bulk = rows_of(store)
        with (
            monkeypatch.context() as patched,
            open_bare(specification, backend, directory / "records") as store,
        ):
            patched.setattr(RowSink, "into", lambda *_: None)
            restore(store, **source)
            return in_bulk, rows_of(store)

    return both
