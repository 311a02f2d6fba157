"""Instances on threads of this process, for tests that look into them."""

from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

from kafka_cluster import TestCluster, wait_for

from statestores.kafka import KafkaRunner, TaskPlace
from statestores.processing import Topology


class ThreadedInstance:
    """One instance, from the beginning of the context to its end."""

    def __init__(
        self,
        cluster: TestCluster,
        topology: Topology,
        state: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Prepare it, with more *settings* than all have."""
        self.failure: BaseException | None = None
        self.runner = KafkaRunner(
            topology,
            cluster.address,
            state,
            backend="sqlite",
            settings={
                "consumer.fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
                **(settings or {}),
            },
            commit_interval_ms=20,
            **options,
        )
        self._thread = Thread(target=self._run, name=f"instance {state.name}")

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:  # noqa: BLE001  # told to whoever waits
            self.failure = error

    def places(self, state: str) -> dict[tuple[str, int], TaskPlace]:
        """Return the tasks in *state*."""
        assert self.failure is None, self.failure
        found = self.runner.snapshot()
        return {(each.part, each.partition): each for each in found if each.state == state}

    def wait_for(self, state: str, count: int) -> dict[tuple[str, int], TaskPlace]:
        """Wait until *count* tasks are in *state*; return them."""
        wait_for(lambda: len(self.places(state)) == count, f"{count} tasks that are {state}")
        return self.places(state)

    def leave(self) -> None:
        """Commit, leave the group and end."""
        self.runner.stop()
        self._thread.join(60)

        assert self.failure is None, self.failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.runner.stop()
        self._thread.join(60)
        if error is not None and self.failure is not None:
            error.add_note(f"the instance has failed: {self.failure!r}")
