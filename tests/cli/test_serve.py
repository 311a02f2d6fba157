"""The command `serve`: a state root in the browser, from a process of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plain_http
import pytest

import statestores as ss
from statestores.query import Question
from statestores.query.metadata import Host
from statestores.serving import FlightStores
from statestores.tasks import open_task

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


@pytest.mark.spec("SRV-19", "SRV-15")
def test_a_root_is_served_until_a_signal(tmp_path: Path) -> None:
    """Another process reads a store, while its owner goes on writing it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    program = [sys.executable, "-m", "statestores.cli", "serve", str(root.path), "--port", "0"]
    words = ss.TopicPartition("words", 0)
    with open_task(root, "0_0", ["counts"], backend="memory") as task:
        task.store("counts").put("tea", 1)
        task.commit({words: 1})
        with subprocess.Popen(
            [*program, "--backend", "memory", "--flight-port", "0", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        ) as serving:
            assert serving.stdout is not None
            told = json.loads("".join(iter(serving.stdout.readline, "}\n")) + "}")
            url = told["url"]
            assert told["stores"] == ["counts"]

            def count() -> Any:
                answer = plain_http.get(f"{url}/v1/stores/counts/value?key=tea")
                return answer.json()["rows"][0]["value"]

            assert count() == 1
            task.store("counts").put("tea", 2)
            task.commit({words: 2})
            assert count() == 2
            with FlightStores() as remote:
                counts: Any = remote.store(Host.of(told["flight"]), Question(specification=COUNTS))
                assert counts.get(b"tea") == ss.int64.encode(2)
            serving.send_signal(signal.SIGTERM)

            assert serving.wait(60) == 0


@pytest.mark.spec("SRV-17")
def test_an_open_address_is_refused_before_anything_is_opened(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """The sentence says what to give."""
    refused = run("serve", str(tmp_path), "--address", "0.0.0.0")  # noqa: S104  # refused

    assert refused.code == 2
    assert "other machines" in refused.err
