"""What of an instance's directory has gone, or is older: its changelog topics bring it up again."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import TestCluster

import statestores as ss
from statestores.errors import StateStoreError
from statestores.files.directory_lock import LOCK_FILE
from statestores.kafka import run
from statestores.processing import Context, Processor, Record, Topic, Topology

_KEYS = "abcdefgh"
_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100}


class _Numbering(Processor[str, int, str, int]):
    """Numbers the records of each key, and forgets every second one in between."""

    seen = ss.KeyValue("seen", key=ss.utf8, value=ss.int64)
    turn = ss.KeyValue("turn", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Also keep a timer."""
        context.every(10, lambda _: None)

    def process(self, record: Record[str, int]) -> None:
        """Number and forward; what is deleted must not come back."""
        number = (self.store(self.seen).get(record.key) or 0) + 1
        self.store(self.seen).put(record.key, number)
        if self.store(self.turn).get(record.key) is None:
            self.store(self.turn).put(record.key, number)
        else:
            self.store(self.turn).delete(record.key)
        turn = 100 if self.store(self.turn).get(record.key) is None else 0
        self.forward(record.with_value(number + turn))


class _Rounds:
    """Rounds of an application: each gives every key a record, and numbers it."""

    def __init__(self, cluster: TestCluster, directory: Path, backend: str) -> None:
        name = cluster.name("lost")
        self._cluster, self._directory, self._backend = cluster, directory, backend
        self._orders = Topic(f"{name}-orders", key=ss.utf8, value=ss.int64, partitions=2)
        self._numbered = Topic(f"{name}-numbered", key=ss.utf8, value=ss.int64, partitions=2)
        cluster.create(self._orders, self._numbered)
        self._topology = Topology(name)
        orders = self._topology.stream(self._orders)
        orders.process(_Numbering, key=ss.utf8, value=ss.int64).to(self._numbered)
        self._done = 0
        self.newest = directory / "newest"
        for _ in range(3):
            assert self.next() == "equal"
            if not (directory / "older").exists():
                shutil.copytree(self.newest, directory / "older")

    def next(self, state: Path | None = None) -> str:
        """Have the next round done on *state*; return an error, or whether all is as it should."""
        self._done += 1
        self._cluster.append(self._orders, (Record(key, 1, self._done * 20) for key in _KEYS))
        return self._finished(state or self.newest)

    def _finished(self, state: Path) -> str:
        try:
            run(
                self._topology,
                bootstrap_servers=self._cluster.address,
                state=state,
                backend=self._backend,
                settings=_FAST,
                until="idle",
            )
        except StateStoreError as error:
            return f"{type(error).__name__}: {error}"
        rows = [(each.key, each.value) for each in self._cluster.read(self._numbered)]
        expected = [
            (key, n + (0 if n % 2 else 100)) for key in _KEYS for n in range(1, self._done + 1)
        ]
        return "equal" if Counter(rows) == Counter(expected) else f"WRONG: {rows[-len(_KEYS) :]}"

    def places(self) -> Iterator[Path]:
        """Iterate over what there is, but for the files of locks."""
        for path in (self.newest, *sorted(self.newest.rglob("*"))):
            if path.name != LOCK_FILE:
                yield path.relative_to(self.newest)

    def outcome(self, place: Path, how: str) -> str:
        """Return what comes of a round on the newest state in which *place* was changed."""
        state = self._directory / "state"
        shutil.copytree(self.newest, state)
        is_directory = (state / place).is_dir()
        shutil.rmtree(state / place) if is_directory else (state / place).unlink()
        older = self._directory / "older" / place
        if how == "emptied":
            (state / place).mkdir(parents=True) if is_directory else (state / place).touch()
        elif how == "older" and older.is_dir():
            shutil.copytree(older, state / place)
        elif how == "older" and older.exists():
            shutil.copy2(older, state / place)
        found = self.next(state)
        if found == "equal":
            shutil.rmtree(self.newest)
            state.rename(self.newest)
        else:
            shutil.rmtree(state)
            assert self._finished(self.newest) == "equal", (found, place, how)
        return found


@pytest.mark.spec("KFK-8", "KFK-9")
def test_an_older_store_is_caught_up_and_a_lost_one_restored(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """Of one store, beside the newest of its task: each begins behind its own offset."""
    rounds = _Rounds(cluster, tmp_path, "sqlite")

    assert rounds.outcome(Path("turn"), "older") == "equal"
    assert rounds.outcome(Path("seen", "1"), "gone") == "equal"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.spec("KFK-8", "KFK-9")
@pytest.mark.parametrize("backend", ["sqlite", "rocksdb"])
def test_whatever_of_an_instance_is_lost_or_older_comes_back_or_is_refused(
    cluster: TestCluster, tmp_path: Path, backend: str
) -> None:
    """Each directory and file of an instance in turn: removed, emptied, or put back from a copy."""
    rounds = _Rounds(cluster, tmp_path, backend)
    outcomes = {
        (str(place), how): rounds.outcome(place, how)
        for place in rounds.places()
        for how in ("older", "gone", "emptied")
        if (rounds.newest / place).exists()
    }

    assert {key: told for key, told in outcomes.items() if told.startswith("WRONG")} == {}
