"""Processes that share a state answer for each other, also when one of them is killed."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import plain_http
import pytest
from forked_programs import Forked
from shared_lives import PARTITIONS, append_orders, order, topology

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    ProcessingError,
    StorageError,
)
from statestores.processing import LocalRunner, LocalTopics, Record, Topic, Topology
from statestores.processing.local import StateMembership
from statestores.query import RoutedStores
from statestores.serving import FlightStores, Serving

_PATIENCE_SECONDS = 60.0
_PROGRAM = Path(__file__).parents[1] / "kit" / "shared_lives.py"
_ORDERS = 120
_TOTALS = ss.KeyValue("totals", key=ss.utf8, value=ss.int64)


def _until(is_over: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_over():
        assert time.monotonic() < deadline
        time.sleep(0.04)


def _rows(store: Any) -> dict[str, int] | None:
    """Return what there is; ``None`` while the instance has not said yet that it has the store."""
    try:
        return dict(store.range())
    except InvalidStateStoreError:
        return None


def _answer(url: str) -> Any:
    return plain_http.get(url, timeout=30).json()


def _runner(directory: Path, made: Topology, **more: Any) -> LocalRunner:
    return LocalRunner(
        made,
        directory / "state",
        directory / "topics",
        backend="sqlite",
        commit_interval_ms=20,
        serve="127.0.0.1:0",
        **more,
    )


@contextmanager
def _running(runner: LocalRunner) -> Iterator[LocalRunner]:
    thread = Thread(target=runner.run)
    thread.start()
    try:
        _until(lambda: runner.server is not None)
        yield runner
    finally:
        runner.stop()
        thread.join()


@pytest.mark.spec("SRV-22", "SRV-23")
def test_a_killed_process_s_keys_are_answered_by_others(tmp_path: Path) -> None:
    """Each of two answers for all keys; then the one that is left, which had copies."""
    with LocalTopics(tmp_path / "topics"):
        append_orders(tmp_path, 0, _ORDERS)
    expected: dict[str, int] = {}
    for number in range(_ORDERS):
        record = order(number)
        expected[record.key] = expected.get(record.key, 0) + record.value
    with _running(_runner(tmp_path, topology(), standbys=1)) as runner:
        server = runner.server
        assert server is not None
        totals = server.queries.store(_TOTALS, max_lag=0)
        copies = server.queries.store(_TOTALS, include_stale=True, max_lag=0)
        _until(lambda: _rows(totals) == expected)
        asked = {
            "directory": str(tmp_path),
            "failpoint": None,
            "at": 1,
            "backend": "sqlite",
            "standbys": 1,
            "serve": "127.0.0.1:0",
        }
        with Forked(_PROGRAM, json.dumps(asked)) as other:

            def are_shared() -> bool:
                members = server.queries.metadata.all_metadata()
                return len(members) == 2 and all(each.of("totals") for each in members)

            _until(are_shared)
            assert dict(totals.range()) == expected
            rows = _answer(f"{server.url}/v1/stores/totals/rows?max_lag=0")["rows"]
            assert {row["key"]: row["value"] for row in rows} == expected
            with (
                FlightStores() as remote,
                RoutedStores(StateMembership(tmp_path / "state"), remote) as outside,
            ):
                assert dict(outside.store(_TOTALS).range()) == expected
            other.kill()
        assert dict(copies.range()) == expected
        assert dict(totals.range()) == expected
        _until(lambda: len(server.queries.metadata.all_metadata()) == 1)
        assert len(server.queries.metadata.all_metadata()[0].of("totals")) == PARTITIONS


@pytest.mark.spec("SRV-22", "SRV-15")
def test_a_run_that_fails_answers_no_more(tmp_path: Path) -> None:
    """It is ready once it runs, and its ports are free again when it has failed."""
    lines = Topic("lines", key=ss.utf8, value=ss.utf8)
    made = Topology("failing")

    def refuse(value: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return value

    counted = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    made.stream(lines).map_values(refuse, value=ss.utf8).group_by_key().count(counted)
    runner = _runner(tmp_path, made)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            runner.run()
        except ProcessingError as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    _until(lambda: runner.server is not None)
    server = runner.server
    assert server is not None
    _until(lambda: _answer(f"{server.url}/ready")["ready"])
    taken = Serving.of(server.url.removeprefix("http://"))
    with pytest.raises(StorageError, match="is it taken"), LocalTopics(tmp_path / "other"):
        LocalRunner(made, tmp_path / "again", tmp_path / "other", serve=taken).run()
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(lines).append([Record("a", "bad", 1)])
    thread.join(_PATIENCE_SECONDS)

    assert len(failures) == 1
    assert runner.server is None
    with pytest.raises(httpx.ConnectError):
        _answer(f"{server.url}/health")


@pytest.mark.spec("SRV-17")
def test_what_cannot_be_served_is_refused_at_once(tmp_path: Path) -> None:
    """Before anything is opened."""
    for place, endpoint, words in (
        ("7070", None, "written 'host:port'"),
        ("0.0.0.0:0", None, "give a certificate"),
        ("127.0.0.1:0", "here:1", "not both"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            LocalRunner(
                topology(), tmp_path / "state", tmp_path / "topics", serve=place, endpoint=endpoint
            )
    with pytest.raises(InvalidArgumentError, match="flight_port"):
        Serving(flight_port=-1)
    with pytest.raises(InvalidArgumentError, match="timeout_s"):
        Serving(timeout_s=0)
    assert list(tmp_path.iterdir()) == []
