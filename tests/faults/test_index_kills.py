"""``kill -9`` around the commits that write groups and let them go: every row keeps its name."""

import signal
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.self_description import read_description
from statestores.semantics.retained.name_groups import is_group
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.serdes.descriptions import specification_from_description
from statestores.spi import Durability, Engine
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.faults.crash_nursery import shared_nursery

_PATIENCE_SECONDS = 60.0
_KILLS = (12, 5, 9)
"""How often each process gets to the failpoint."""

_FAILPOINTS = ("vacuum.swept", "commit.apply.before", "commit.apply.after")


@pytest.mark.spec("LAY-31", "LAY-20", "WIN-20", "SES-20", "COM-2")
@pytest.mark.parametrize("kind", ["window", "session"])
@pytest.mark.parametrize(
    ("failpoint", "backend"), list(zip(_FAILPOINTS, ("rocksdb", "sqlite", "leveldb"), strict=True))
)
def test_a_kill_leaves_no_row_without_a_name(
    tmp_path: Path, kind: str, failpoint: str, backend: str
) -> None:
    """Each process goes on after the one before; at the end everything that expired is gone."""
    try:
        driver = load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    seed = 2  # an even one: the windows are no duplicates
    groups = 0
    for at in _KILLS:
        shared_nursery().start(
            {
                "backend": backend,
                "options": {},
                "kind": kind,
                "seed": seed,
                "store": str(tmp_path / "engine"),
                "oracle": str(tmp_path / "oracle"),
                "failpoint": (failpoint, at),
            }
        )
        assert shared_nursery().wait(_PATIENCE_SECONDS) == -signal.SIGKILL
        with driver.open(tmp_path / "engine") as engine:
            examined = examine_rows(engine)
            groups += sum(1 for key, _ in engine.scan(HISTORY, END) if is_group(key))

            assert examined is not None
            assert examined.problems == []
    with driver.open(tmp_path / "engine") as engine:
        assert _left(engine) == 2
    assert groups > 0


def _left(engine: Engine) -> int:
    """Let everything expire, and return how many rows there are then, of data and index."""
    specification = specification_from_description(read_description(engine) or {})
    store: Any = open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)
    if specification.kind == "session":
        store.put(b"last", 1 << 40, 1 << 40, b"v")
    else:
        store.put(b"last", b"v", 1 << 40)
    before = None
    while before != (before := list(engine.scan(DATA, END))):
        store.commit({})
    return len(before)
