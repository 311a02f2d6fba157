"""Topologies as descriptions: checks, names, printing, upgrades."""

import json
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTopologyError,
    InvalidTypeError,
    TopologyMismatchError,
)
from statestores.processing import (
    Topic,
    Topology,
    check_upgrade,
    closed,
    hopping,
    session,
    sliding,
    tumbling,
    updates,
    within,
)
from statestores.processing.fields import selector
from statestores.processing.operators.operator import Pass
from statestores.processing.topology import Node
from statestores.processing.topology.checks import in_order
from statestores_conformance.many_cases import for_each


def words(name: str = "lines", **more: Any) -> Topic[str, str]:
    """Return a topic of texts."""
    return Topic(name, key=ss.utf8, value=ss.utf8, **more)


def counts(name: str = "counts") -> ss.KeyValue[str, int]:
    """Return a store of counts."""
    return ss.KeyValue(name, key=ss.utf8, value=ss.int64)


@pytest.mark.spec("PRC-1")
def test_a_topology_without_source_is_refused() -> None:
    """The message says what to add."""
    with pytest.raises(InvalidTopologyError, match="add a stream or a table"):
        Topology("empty").build()


@pytest.mark.spec("PRC-2")
def test_two_steps_of_one_name_are_refused() -> None:
    """The second one is told."""
    stream = Topology("twice").stream(words())
    stream.filter(lambda record: bool(record.value), name="full")

    with pytest.raises(InvalidTopologyError, match="'full' already, a filter"):
        stream.peek(print, name="full")


@pytest.mark.spec("PRC-2")
def test_a_circle_is_refused() -> None:
    """Steps that wait for each other can never run."""
    nodes = [
        Node(name="a", kind="merge", make=Pass, parents=("b",)),
        Node(name="b", kind="merge", make=Pass, parents=("a",)),
    ]

    with pytest.raises(InvalidTopologyError, match="in a circle: 'a', 'b'"):
        in_order(nodes)


@pytest.mark.spec("PRC-2")
def test_a_step_of_another_topology_is_refused() -> None:
    """Two topologies are two applications."""
    one, other = Topology("one"), Topology("other")
    one.stream(words()).merge(other.stream(words("more")))

    with pytest.raises(InvalidTopologyError, match="no step of this topology"):
        one.build()


@pytest.mark.spec("PRC-3")
def test_a_store_with_two_descriptions_is_refused() -> None:
    """One name, one store."""
    shop = Topology("shop")
    shop.stream(words()).group_by_key().count(counts("same"))
    other = ss.KeyValue("same", key=ss.utf8, value=ss.utf8)

    with pytest.raises(InvalidTopologyError, match="'same'"):
        shop.stream(words("more")).group_by_key().reduce(max, other)


@pytest.mark.spec("PRC-3")
def test_a_topic_with_two_descriptions_is_refused() -> None:
    """A reader and a writer that disagree about types would find out late."""
    shop = Topology("shop")
    shop.stream(words())

    with pytest.raises(InvalidTopologyError, match="described in two ways"):
        shop.stream(Topic("lines", key=ss.utf8, value=ss.json))


@pytest.mark.spec("PRC-4")
def test_a_join_of_differently_partitioned_topics_is_refused() -> None:
    """It says which to repartition, and into how many."""
    shop = Topology("shop")
    left = shop.stream(words("left", partitions=3))
    right = shop.stream(words("right", partitions=4))
    left.join(right, lambda one, other: one + other, within=within(5))

    with pytest.raises(InvalidTopologyError, match=r"\.repartition\(partitions=4\)"):
        shop.build()


@pytest.mark.spec("PRC-4")
def test_a_repartitioned_side_fits() -> None:
    """What the message says helps."""
    shop = Topology("shop")
    left = shop.stream(words("left", partitions=3)).repartition("aligned", partitions=4)
    right = shop.stream(words("right", partitions=4))
    left.join(right, lambda one, other: one + other, within=within(5))

    assert shop.build().partitions()["shop-aligned-repartition"] == 4


@pytest.mark.spec("PRC-4")
def test_other_partitioners_are_refused() -> None:
    """Equal counts do not put equal keys together."""
    shop = Topology("shop")
    table = shop.table(words("rows", partitioner="crc32"))
    shop.stream(words()).join(table, lambda one, other: one + other)

    with pytest.raises(InvalidTopologyError, match="crc32"):
        shop.build()


@pytest.mark.spec("PRC-4")
def test_a_topic_takes_its_partitions_from_what_it_is_read_with() -> None:
    """One that nothing is said of has as many as its neighbour."""
    shop = Topology("shop")
    table = shop.table(words("rows"))
    shop.stream(words(partitions=3)).join(table, lambda one, other: one + other)

    assert shop.build().partitions() == {"lines": 3, "rows": 3}


def named(more: bool) -> list[str]:  # a parameter of a test
    """Return the names of what a topology leaves behind, with or without an unrelated part."""
    shop = Topology("shop")
    if more:
        shop.stream(words("other")).group_by("value").count(counts("others"))
    shop.stream(words()).group_by("value").count(counts())
    graph = shop.build()
    names = [topic.name for topic in graph.internal_topics] + list(graph.stores)
    return [name for name in names if "others" not in name]


@pytest.mark.spec("PRC-5")
def test_names_do_not_depend_on_unrelated_parts() -> None:
    """A new step elsewhere loses no state."""
    assert named(more=True) == named(more=False) == ["shop-counts-repartition", "counts"]


@pytest.mark.spec("PRC-6")
def test_an_upgrade_that_leaves_state_behind_is_refused() -> None:
    """All that would be lost is listed."""
    before, after = Topology("shop"), Topology("shop")
    before.stream(words()).group_by("value").count(counts())
    after.stream(words()).group_by("value").count(counts("totals"))

    with pytest.raises(TopologyMismatchError) as raised:
        check_upgrade(dict(before.description()), dict(after.description()))

    assert "'shop-counts-repartition' is gone" in str(raised.value)
    assert "store 'counts' is gone" in str(raised.value)


@pytest.mark.spec("PRC-6")
def test_an_upgrade_that_adds_is_accepted() -> None:
    """More may be new."""
    before, after = Topology("shop"), Topology("shop")
    for topology in (before, after):
        topology.stream(words()).group_by("value").count(counts())
    after.stream(words("other")).group_by_key().count(counts("others"))

    check_upgrade(dict(before.description()), dict(after.description()))


def evolved(form: str) -> dict[str, Any]:
    """Return the description of a topology in which one thing is as *form* says."""
    shop, rows = Topology("shop"), ss.KeyValue("rows", key=ss.utf8, value=ss.utf8)
    left, right = shop.stream(words("left")), shop.stream(words("right"))
    grace_ms = 100 if form.endswith("grace") else 5
    windows: Any = tumbling(10, grace_ms=grace_ms)
    windows = hopping(10, 5, grace_ms=5) if form == "hopping" else windows
    windows = sliding(10, grace_ms=5) if form == "sliding" else windows
    kept = ss.Window("w", retention_ms=999, window_size_ms=10, key=ss.utf8, value=ss.int64)
    emit = closed() if form.startswith("closed") else updates()
    windowed_counts = left.group_by_key().window(windows).count(kept, emit=emit)
    if form.startswith("final"):
        windowed_counts.suppress(until_closed=True, name="held")
    elif form.startswith("held"):
        windowed_counts.suppress(wait_ms=5, name="held")
    for side, store in ((left, "x"), (right, "y")):
        name = store if form != "swapped" else {"x": "y", "y": "x"}[store]
        side.group_by_key().count(counts(name))
    group = shop.stream(words("third")).group_by_key()
    group.sum(len, counts("z")) if form == "sum" else group.count(counts("z"))
    if form == "merged":
        left.merge(right)
        left.join(right, max, within=within(5))
    how: Any = form if form in {"left", "outer"} else "inner"
    one, two = shop.stream(words("one")), shop.stream(words("two"))
    one.join(two, lambda this, that: f"{this}{that}", within=within(5), how=how, name="pairs")
    table = shop.table(words("rows"), rows)
    if form == "grouped":
        table.group_by("value", key_serde=ss.utf8).count(counts("lengths"))
    if form == "kept":
        table.filter(bool, ss.KeyValue("full", key=ss.utf8, value=ss.utf8))
    if form == "grouped-held":
        held = table.suppress(wait_ms=5)
        held.group_by("value", key_serde=ss.utf8).count(counts("lengths"))
    if form == "streamed":
        table.to_stream().group_by_key().count(counts("changes"))
    history = ss.Versioned("history", history_retention_ms=9, key=ss.utf8, value=ss.utf8)
    names = shop.table(words("names"), history)
    serde: Any = ss.int64 if form == "lengths" else ss.utf8
    texts = shop.stream(words("texts")).map_values(len if form == "lengths" else str, value=serde)
    texts.join_as_of(names, lambda text, name: f"{text}{name}", wait_ms=5, name="named")
    return dict(shop.description())


def of_two(form: str) -> dict[str, Any]:
    """Return the description of steps of one of two tables, or streams, of one part."""
    shop = Topology("shop")
    both = [shop.table(words(name), ss.KeyValue(name, key=ss.utf8, value=ss.utf8)) for name in "ab"]
    both[0].join(both[1], max)
    table = both[form == "other"]
    table.suppress(wait_ms=5, name="held")
    table.group_by("value", key_serde=ss.utf8).count(counts("lengths"))
    table.to_stream().group_by_key().count(counts("changes"))
    return dict(shop.description())


@pytest.mark.spec("PRC-105", "PRC-106")
def test_a_step_goes_on_from_rows_that_it_understands_alone(subtests: pytest.Subtests) -> None:
    """Stores were there by their names, and what was in them was something else, or not all.

    Two counts that had swapped their stores went on adding to each other's numbers; windows of
    which only the closed ones come out kept those back that were open at the upgrade, also when
    more records came for them; a count of the rows of a table that had been there took out rows
    that it had never added. All of it without a word, and a part that reads one topic more ended
    the run with a ``TypeError``.

    Neither were suppressions compared, nor what waits: windows that were held back for a time came
    out twice when they were to come out once they are closed; what waited was decoded by another
    serde; a count of one table, of two that are joined, took out the rows of the other one.
    """
    refused = (
        ("swapped", "plain", "'x' belonged to the part 'left' and now belongs to 'right'"),
        ("merged", "plain", "the part 'left' read 'left' and now reads 'left', 'right'"),
        ("sum", "plain", "the step 'z' was 'count' and is now 'sum'"),
        ("hopping", "plain", "the step 'w' was by"),
        ("sliding", "plain", "the step 'w' was by"),
        ("closed", "plain", "the step 'w' now keeps 'w-pending' as well"),
        ("closed-grace", "closed", "the step 'w' was by"),
        ("left", "plain", "the step 'pairs.left' now keeps 'pairs-waiting' as well"),
        ("outer", "left", "'pairs.left' was 'left-join-left' and is now 'outer-join-left'"),
        ("grouped", "plain", "the step 'lengths' is new and follows 'rows'"),
        ("kept", "plain", "the step 'full' is new and follows 'rows'"),
        ("grouped-held", "plain", "the step 'lengths' is new and follows 'rows'"),
        ("final", "plain", "the step 'held' is new and follows 'w'"),
        ("final", "held", "the step 'held' was by"),
        ("held", "final", "the step 'held' was by"),
        ("final-grace", "final", "the step 'held' was by"),
        ("lengths", "plain", "what waits in the step 'named' was"),
    )
    for form, earlier, says in refused:
        with subtests.test(form=form), pytest.raises(TopologyMismatchError) as raised:
            check_upgrade(evolved(earlier), evolved(form))
        assert says in str(raised.value)
    for form in ("plain", "grace", "streamed", "held"):
        with subtests.test(form=form):
            check_upgrade(evolved("plain"), evolved(form))
    with subtests.test("held by another grace"):
        check_upgrade(evolved("held"), evolved("held-grace"))
    with subtests.test("of another table"), pytest.raises(TopologyMismatchError) as raised:
        check_upgrade(of_two("one"), of_two("other"))
    for says in (
        "the step 'held' followed 'a' and now follows 'b'",
        "the step 'lengths' followed 'a' and now follows 'b'",
        "the step 'changes' was of 'a' and is now of 'b'",
    ):
        assert says in str(raised.value)
    with subtests.test("of an earlier version"):
        noted = {name: each for name, each in evolved("plain").items() if name != "steps"}
        check_upgrade(noted, evolved("closed"))
        plain = evolved("plain")
        fewer = {
            name: {field: step[field] for field in ("kind", "form", "keeps", "rows_of")}
            for name, step in plain["steps"].items()
        }
        check_upgrade({**plain, "steps": fewer}, plain)


def kept_by(step: str) -> dict[str, Any]:
    """Return the description of a topology in which the store ``x`` is what *step* says."""
    shop, rows = Topology("shop"), ss.KeyValue("x", key=ss.utf8, value=ss.int64)
    topic = Topic("a", key=ss.utf8, value=ss.int64)
    if step == "table":
        shop.table(topic, rows)
    elif step == "global":
        shop.global_table(topic, rows)
    elif step == "to_table":
        shop.stream(topic).map_values(abs, value=ss.int64).to_table(rows)
    elif step == "count":
        shop.stream(topic).group_by_key().count(rows)
    elif step == "join":
        both = [
            shop.table(each, ss.KeyValue(each.name, key=ss.utf8, value=ss.int64))
            for each in (topic, Topic("b", key=ss.utf8, value=ss.int64))
        ]
        both[0].join(both[1], max, rows)
    elif step == "changes":
        table = shop.table(topic, ss.KeyValue("a", key=ss.utf8, value=ss.int64))
        other = shop.table(
            Topic("b", key=ss.utf8, value=ss.int64),
            ss.KeyValue("b", key=ss.utf8, value=ss.int64),
        )
        table.join(other, max)
        table.to_stream().group_by_key().count(rows)
    else:
        table = shop.table(topic, ss.KeyValue("a", key=ss.utf8, value=ss.int64))
        if step == "filter":
            table.filter(lambda record: record.value > 0, rows)
        else:
            table.map_values(abs, rows)
    return json.loads(json.dumps(shop.description()))  # type: ignore[no-any-return]  # of JSON


@pytest.mark.spec("PRC-108")
@for_each(
    ("earlier", "now", "says"),
    [
        ("table", "count", "the store 'x' has rows of 'table' and would go on with those of"),
        ("to_table", "count", "rows of 'table' and would go on with those of 'count'"),
        ("count", "table", "rows of 'count' and would go on with those of 'table'"),
        ("table", "filter", "rows of 'table' and would go on with those of 'filter'"),
        ("table", "map", "rows of 'table' and would go on with those of 'map_values'"),
        ("filter", "map", "rows of 'filter' and would go on with those of 'map_values'"),
        ("join", "changes", "rows of 'keep' and would go on with those of 'count'"),
        ("table", "global", "rows of 'table' and would go on with those of 'global table'"),
        ("global", "table", "rows of 'global table' and would go on with those of 'table'"),
    ],
)
def test_rows_of_one_kind_of_step_are_not_those_of_another(
    earlier: str, now: str, says: str
) -> None:
    """A store was compared by its types, and a step by its own name where it had been there.

    So a count was a new step where a table had been, and went on from the table's rows: the second
    record of a key whose row had been 5 made it 6. A table that was filtered now had the rows that
    nobody had filtered, and a table had counts in it.
    """
    with pytest.raises(TopologyMismatchError, match=says):
        check_upgrade(kept_by(earlier), kept_by(now))
    check_upgrade(kept_by("table"), kept_by("to_table"))
    check_upgrade(kept_by(now), kept_by(now))
    unnoted = {name: each for name, each in kept_by(earlier).items() if name != "keepers"}
    check_upgrade(unnoted, kept_by(earlier))


@pytest.mark.spec("PRC-27")
def test_stores_that_let_go_of_open_windows_are_refused(subtests: pytest.Subtests) -> None:
    """Also those whose windows have another length."""
    for windows, size_ms, retention_ms in (
        (tumbling(10, grace_ms=5), 10, 14),
        (hopping(10, 5), 9, 100),
        (sliding(10), 10, 21),
    ):
        store = ss.Window(
            "short", retention_ms=retention_ms, window_size_ms=size_ms, key=ss.utf8, value=ss.int64
        )
        group = Topology("shop").stream(words()).group_by_key().window(windows)

        with (
            subtests.test(windows=windows),
            pytest.raises(InvalidTopologyError, match="'short'"),
        ):
            group.count(store)


@pytest.mark.spec("PRC-27")
def test_a_session_store_has_to_keep_open_sessions() -> None:
    """A session is open for gap and grace after its end."""
    store = ss.Session("short", retention_ms=15, key=ss.utf8, value=ss.int64)
    group = Topology("shop").stream(words()).group_by_key().window(session(10, grace_ms=5))

    with pytest.raises(InvalidTopologyError, match="retention_ms"):
        group.count(store)


@pytest.mark.spec("PRC-1")
def test_windowed_keys_need_a_topic_for_them() -> None:
    """Told when it is written down, and not by the first record."""
    store = ss.Window("w", retention_ms=9, window_size_ms=9, key=ss.utf8, value=ss.int64)
    table: Any = Topology("shop").stream(words()).group_by_key().window(tumbling(9)).count(store)

    with pytest.raises(InvalidTopologyError, match=r"key=windowed\(utf8\)"):
        table.to(Topic("out", key=ss.utf8, value=ss.int64))


def test_a_topology_is_printed() -> None:
    """As text and as a diagram, with topics, steps and stores."""
    shop = Topology("shop")
    shop.stream(words()).group_by_key().count(counts()).to(
        Topic("out", key=ss.utf8, value=ss.int64)
    )

    assert "counts: count stores counts (timestamped-key-value)" in shop.describe()
    assert "flowchart TD" in shop.mermaid()
    assert '[("counts")]' in shop.mermaid()


def test_as_of_needs_a_history() -> None:
    """A table that is not versioned has none."""
    shop = Topology("shop")

    with pytest.raises(InvalidTopologyError, match="Versioned"):
        shop.stream(words()).join_as_of(shop.table(words("rows")), lambda one, other: one + other)


@for_each("path", ["", "valu", "value.", "key..x"])
def test_paths_that_are_none_are_refused(path: str) -> None:
    """A path begins at a record and names fields."""
    with pytest.raises(InvalidArgumentError):
        selector(path)


def test_shared_beginnings_are_refused() -> None:
    """A list as the beginning of every key's aggregate would be one list."""
    group = Topology("shop").stream(words()).group_by_key()
    store = ss.KeyValue("lists", key=ss.utf8, value=ss.json)

    with pytest.raises(InvalidTypeError, match="a function such as list"):
        group.aggregate([], lambda aggregate, value: [*aggregate, value], store)
