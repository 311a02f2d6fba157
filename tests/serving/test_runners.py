"""What runs a topology, served: by the seam for runners, and from outside, over its state root."""

from collections.abc import Mapping
from pathlib import Path

import plain_http
import pytest
from served_shop import COUNTS, PARTITIONS, Shop, home

import statestores as ss
from statestores.errors import CapabilityNotSupportedError, UnknownStateStoreError
from statestores.processing import LocalTopics, Record, Topic, Topology, run
from statestores.query import QueryableStores, RunningStore
from statestores.query.metadata import LeaseMembership, Role
from statestores.serving import (
    Announcer,
    FollowedRoot,
    HttpServer,
    Served,
    ServedRunner,
)
from statestores.spi.metrics.metric import Metrics


class OneRunner:
    """A runner that has one partition, a copy of the other, or is restoring it."""

    reason: str | None = None

    def __init__(self, shop: Shop, *, is_restoring: bool) -> None:
        self._facades = shop.manager.local_stores("counts")
        self._is_restoring = is_restoring

    def running_stores(self) -> Mapping[str, RunningStore]:
        """Return what runs."""
        return {
            "counts": RunningStore(
                specification=COUNTS,
                partitions=PARTITIONS,
                active={0: self._facades[0]},
                standby={} if self._is_restoring else {1: self._facades[1]},
                restoring=frozenset({1} if self._is_restoring else ()),
            )
        }

    def not_begun(self) -> str | None:
        """Return what the test has set."""
        return self.reason

    def metrics(self) -> Metrics:
        """Return nothing."""
        return ()


@pytest.mark.spec("SRV-1", "SRV-15", "SRV-6")
def test_a_runner_is_served_by_what_it_has_open(shop: Shop) -> None:
    """Active, copies and what is restoring are told apart."""
    served: Served = ServedRunner(OneRunner(shop, is_restoring=False), root=shop.root)
    counts = QueryableStores(served).store(COUNTS, include_stale=True, max_lag=0)
    assert len(list(counts.range())) == 20
    assert {number: each.role for number, each in served.partitions("counts").items()} == {
        0: Role.ACTIVE,
        1: Role.STANDBY,
    }
    assert {each.offset_lag for each in served.partitions("counts").values()} == {0}
    assert served.waiting() == ()
    end, batches = served.changes("counts", 1, None)
    assert sum(batch.num_rows for batch in batches) == end

    runner = OneRunner(shop, is_restoring=True)
    restoring = ServedRunner(runner)
    assert restoring.waiting() == ("partition 1 of 'counts' is restoring",)
    runner.reason = "the run has not begun"
    assert restoring.waiting() == (runner.reason, "partition 1 of 'counts' is restoring")
    assert restoring.partitions("counts")[1].role is Role.RESTORING
    with pytest.raises(CapabilityNotSupportedError):
        restoring.changes("counts", 0, None)
    with pytest.raises(UnknownStateStoreError, match="there are: counts"):
        restoring.specification("other")


@pytest.mark.spec("SRV-27")
def test_a_runner_with_a_damaged_changelog_tells_the_rest(own_shop: Shop) -> None:
    """It told nothing of any store: the instance was gone for whoever asked who has what."""
    served: Served = ServedRunner(OneRunner(own_shop, is_restoring=False), root=own_shop.root)
    [segment] = own_shop.root.partition("counts", 1).changelog.glob("*.log")
    segment.write_bytes(b"no segment" * 20)
    found = served.partitions("counts")

    assert {number: (each.role, each.offset_lag) for number, each in found.items()} == {
        0: (Role.ACTIVE, 0),
        1: (Role.STANDBY, None),
    }


@pytest.mark.spec("SRV-2", "SRV-3")
def test_the_page_knows_who_else_there_is(own_shop: Shop) -> None:
    """Whoever is announced in the state root."""
    members = LeaseMembership(own_shop.root.path)
    with (
        Announcer(own_shop.served, members, "the-writer", interval_s=3600),
        FollowedRoot(own_shop.root, backend="memory") as followed,
        HttpServer(followed, instance="a-reader", others=members.instances) as server,
    ):
        known = plain_http.get(f"{server.url}/v1/metadata").json()["instances"]
        roles = {each["instance"]: each["partitions"]["counts"]["0"]["role"] for each in known}
        assert roles == {"a-reader": "standby", "the-writer": "active"}
    assert members.instances() == {}


@pytest.mark.spec("SRV-19")
def test_the_stores_of_a_local_run_are_read_from_outside(tmp_path: Path) -> None:
    """What a topology has counted, with its windows, while nobody runs it."""
    lines = Topic("lines", key=ss.utf8, value=ss.utf8)
    topology = Topology("words")
    topology.stream(lines).group_by_key().count(
        ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    ).to(Topic("out", key=ss.utf8, value=ss.int64))
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(lines, partitions=PARTITIONS).append(
            [Record(word, "", number) for number, word in enumerate("abcabcaa")]
        )
    run(
        topology,
        state=tmp_path / "state",
        topics=tmp_path / "topics",
        backend="memory",
        until="idle",
    )
    with (
        FollowedRoot(tmp_path / "state", backend="memory") as root,
        HttpServer(root) as server,
    ):
        name = next(each for each in root.store_names() if "counts" in each)
        answer = plain_http.get(f"{server.url}/v1/stores/{name}/rows").json()
        assert {row["key"]: row["value"] for row in answer["rows"]} == {"a": 4, "b": 2, "c": 2}
        shown = plain_http.get(f"{server.url}/v1/topology").json()
        assert shown == {"mermaid": topology.mermaid()}
        assert home("a") in root.partitions(name)
