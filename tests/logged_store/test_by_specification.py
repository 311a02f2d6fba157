"""Stores by what they are instead of by name, and what they say of themselves.

A type checker took them for `Any` through `open_logged_store` and a task, and saw no misspelt call.
"""

from pathlib import Path
from typing import assert_type

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, StoreMismatchError
from statestores.tasks import TaskId, open_task

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """Return a root with one store."""
    made = ss.StateRoot.create(tmp_path / "state")
    made.add_store(COUNTS, partitions=1)
    return made


def test_a_store_is_opened_by_its_specification(root: ss.StateRoot) -> None:
    """The same store as by its name; another specification is refused, with the difference."""
    with ss.open_logged_store(root, COUNTS, backend="memory") as logged:
        assert_type(logged.store, ss.KeyValueStore[str, int])
        logged.store.put("tea", 3)
        logged.store.commit({})
    with ss.open_logged_store(root, "counts", backend="memory") as again:
        assert again.store.get("tea") == 3
    other = ss.KeyValue("counts", key=ss.utf8, value=ss.float64)
    with pytest.raises(StoreMismatchError, match="value is 'int64', expected 'float64'"):
        ss.open_logged_store(root, other, backend="memory")


def test_a_task_gives_a_store_by_its_specification(root: ss.StateRoot) -> None:
    """Likewise, for its processors."""
    with open_task(root, TaskId(0, 0), ["counts"], backend="memory") as task:
        assert_type(task.store(COUNTS), ss.KeyValueStore[str, int])
        task.store(COUNTS).put("tea", 3)
        assert task.store("counts").get("tea") == 3
        with pytest.raises(StoreMismatchError, match="kind"):
            task.store(ss.Versioned("counts", history_retention_ms=1))


def test_a_store_says_what_it_is_and_where(tmp_path: Path) -> None:
    """Name, kind, backend, directory, and what is pending; also through a task, and closed."""
    path = tmp_path / "counts"
    with ss.open_store(path, COUNTS, backend="sqlite") as store:
        assert (
            repr(store) == f"<key-value store 'counts', sqlite in {str(path)!r}, 0 bytes pending>"
        )
        store.put("tea", 3)
        pending = repr(store)
        assert pending.endswith(" bytes pending>")
        assert " 0 bytes" not in pending
    assert repr(store) == f"<key-value store 'counts', sqlite in {str(path)!r}, closed>"

    root = ss.StateRoot.create(tmp_path / "state")
    assert repr(root) == f"<state root {str(root.path)!r}, stores: none>"
    root.add_store(COUNTS, partitions=1)
    assert repr(root).endswith(", stores: counts>")
    with open_task(root, TaskId(0, 0), ["counts"], backend="memory") as task:
        assert repr(task) == "<task 0_0, stores: counts>"
        assert repr(task.store(COUNTS)).startswith("<key-value store 'counts', memory in ")


def test_a_logged_store_says_where_the_methods_of_its_store_are(root: ss.StateRoot) -> None:
    """It once said that it had no `get`, and nothing of its store, which a stranger looked for."""
    with ss.open_logged_store(root, COUNTS, backend="memory") as logged:
        assert repr(logged).startswith("<logged key-value store 'counts', memory in ")
        assert repr(logged.store.read_only()).startswith("<read-only view of the key-value store ")
        for name in ("get", "put", "range", "history", "fetch", "find_sessions", "read_only"):
            assert not hasattr(logged, name)
            with pytest.raises(AttributeError, match=rf"write \.store\.{name}$"):
                getattr(logged, name)
        with pytest.raises(AttributeError, match="has no attribute 'gett'"):
            getattr(logged, "gett")  # noqa: B009  # as a program writes it


def test_a_partition_is_named_where_there_are_several(tmp_path: Path) -> None:
    """A store of four partitions was opened at its first when none was named, without a word."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("several"), partitions=4)

    with pytest.raises(InvalidArgumentError, match="partitions 0 to 3, and none is named"):
        ss.open_logged_store(root, "several", backend="memory")
