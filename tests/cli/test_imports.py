"""The commands that take over what other libraries and programs have left."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from unpacking import unpack

import statestores as ss

Run: TypeAlias = Callable[..., Any]

FIXTURES = Path(__file__).parents[1] / "migration" / "fixtures"


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    """Unpack what the three libraries have left."""
    pytest.importorskip("rocksdict")
    unpack(FIXTURES / "peers.tar.xz", tmp_path / "peers")
    return tmp_path / "peers"


@pytest.mark.spec("MIG-16", "MIG-17")
def test_import_quix_says_what_is_there_and_what_is_missing(
    peers: Path, run: Run, succeed: Run
) -> None:
    """What cannot be imported is a remark, and asking for it without its retention is refused."""
    group = peers / "quix" / "shop"
    shown = succeed("import-quix", group, "--dry-run", "--json").document
    missing = {each["store"]: each["missing"] for each in shown["partitions"]}
    refused = run("import-quix", group, "--to", peers / "root", "--store", "orders.asof")
    done = succeed(
        *("import-quix", group, "--to", peers / "root", "--store", "orders.default"),
        *("--value-serde", "json", "--backend", "sqlite"),
    )

    assert missing == {
        "orders.asof": ["--retention"],
        "orders.default": [],
        "orders.expiring": [],
        "orders.sessions": ["--retention"],
        "orders.tumbling": ["--kind", "--retention"],
    }
    assert refused.code == 2
    assert "retention of the versioned store" in refused.err
    assert done.out.splitlines()[1].split("\t") == ["orders.default", "0", "2", "0", "yes"]


@pytest.mark.spec("MIG-17", "MIG-18")
def test_import_faust_and_bytewax_into_one_root(peers: Path, succeed: Run) -> None:
    """Tables keep their partitions, steps get as many as are wanted."""
    root = peers / "root"
    succeed(
        *("import-faust", peers / "faust", "--application-id", "shop", "--to", root),
        *("--key-serde", "json", "--value-serde", "json", "--backend", "sqlite"),
        *("--kind", "window", "--retention", "365000d"),
    )
    succeed("import-bytewax", peers / "bytewax", "--to", root, "--partitions", "3")
    state = ss.StateRoot.open(root)

    assert {name: state.store(name).partitions for name in state.stores} == {
        "counts": 2,
        "hops": 1,
        "visits": 2,
        "sums.lines": 3,
        "sums.sum.stateful_flat_map.stateful.stateful_batch": 3,
    }
    assert succeed("get", root, '"echo"', "--store", "counts").out == '{"n":0}\n'
    # `imported.json` was called an orphan after each import; a later one goes by it.
    assert succeed("orphans", root, "--json").out == ""
    (root / ".import" / "state").mkdir()  # of an import that died
    assert [each["path"] for each in succeed("orphans", root, "--json").lines] == [
        str(root / ".import" / "state")
    ]
    window = ("--store", "visits", "--partition", "1", "--start", "10000", "--json")
    assert succeed("get", root, '"b|ob"', *window).document["windows"] == [
        {"window_start_ms": 10_000, "window_end_ms": 20_000, "value": 2}
    ]


@pytest.mark.spec("MIG-18", "MIG-19")
def test_a_table_becomes_a_store_and_that_a_versioned_one(
    tmp_path: Path, run: Run, succeed: Run
) -> None:
    """Two imports, one after the other; what options do not go together is said."""
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("create table users (key text, value integer)")
        database.execute("insert into users values ('anna', 3)")
        database.commit()
    table = ("import-database", tmp_path / "app.db", "--engine", "sqlite", "--table", "users")
    serdes = ("--key-serde", "utf8", "--value-serde", "int64")
    root = tmp_path / "state"
    done = succeed(*table, *serdes, "--to", root, "--partitions", "2")
    versions = ("import", root / "users", tmp_path / "new", "--as", "versioned")
    refused = run(*versions)
    succeed(*versions, "--history-retention", "7d", "--store", "history")

    assert done.out.splitlines()[1].split("\t") == ["users", "0", "1", "0", "yes"]
    assert "--history-retention TIME is missing" in refused.err
    assert succeed("get", tmp_path / "new", "anna").out.startswith("3")
    assert succeed("history", tmp_path / "new", "anna", "--json").out.count("\n") == 1
