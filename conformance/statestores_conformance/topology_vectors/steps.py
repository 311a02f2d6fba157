"""From the steps of a case to a topology."""

from typing import TYPE_CHECKING, Any

from statestores import KeyValue, Session, Versioned, Window, json
from statestores.errors import InvalidArgumentError
from statestores.processing import (
    Cogrouped,
    Emission,
    Table,
    Topic,
    Topology,
    closed,
    hopping,
    session,
    sliding,
    tumbling,
    updates,
    within,
)
from statestores_conformance.topology_vectors.processors import processor_of
from statestores_conformance.topology_vectors.step_fields import (
    Step,
    check_words,
    cogrouped_parts,
    suppression_limits,
)
from statestores_conformance.topology_vectors.vocabulary import (
    NeutralKeySerde,
    fold,
    merged,
    of_record,
    of_value,
    plus,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = NeutralKeySerde()


class Steps:
    """Builds the topology of one case."""

    def __init__(self, name: str, steps: list[Step], prefix: str = "") -> None:
        """Build every step, in order; the topology and its topics have *prefix* in front."""
        self.topology = Topology(f"{prefix}case")
        self._prefix = prefix
        self.made: dict[str, Any] = {}
        self.steps = {step.get("id", f"#{place}"): step for place, step in enumerate(steps)}
        self.name = name
        self._topics: dict[str, Topic[Any, Any]] = {}
        for identifier, step in self.steps.items():
            build = getattr(self, f"_{step['op']}", None)
            if build is None:
                raise InvalidArgumentError(
                    f"{name!r} has a step {step['op']!r}, which is not known"
                )
            check_words(step)
            self.made[identifier] = build(step, identifier)

    def topic(self, name: str) -> Topic[Any, Any]:
        """Return the topic *name*."""
        topic = Topic(self._prefix + name, key=KEYS, value=json)
        return self._topics.setdefault(name, topic)

    def _from(self, step: Step) -> Any:
        if step["from"] not in self.made:
            raise InvalidArgumentError(
                f"{self.name!r} has a step {step['op']!r} from {step['from']!r}, and before it "
                f"there are: {', '.join(self.made)}"
            )
        return self.made[step["from"]]

    def _store(self, step: Step, identifier: str) -> KeyValue[Any, Any]:
        return KeyValue(step.get("store", identifier), key=KEYS, value=json)

    def _named(self, step: Step) -> KeyValue[Any, Any] | None:
        return KeyValue(step["store"], key=KEYS, value=json) if "store" in step else None

    def _selector(self, step: Step, *names: str) -> Any:
        """Return the function under the first of *names* that *step* has."""
        for name in names:
            if name in step:
                return of_record(step[name])
        raise InvalidArgumentError(
            f"{self.name!r} has a step {step['op']!r} without a function; it is under "
            f"{' or '.join(map(repr, names))}"
        )

    # Sources and ends.

    def _stream(self, step: Step, _: str) -> Any:
        return self.topology.stream(self.topic(step["topic"]))

    def _table_store(self, step: Step, identifier: str) -> Any:
        name = step.get("store", identifier)
        if "versioned" in step:
            return Versioned(name, history_retention_ms=step["versioned"], key=KEYS, value=json)
        return KeyValue(name, key=KEYS, value=json)

    def _table(self, step: Step, identifier: str) -> Any:
        return self.topology.table(self.topic(step["topic"]), self._table_store(step, identifier))

    def _global_table(self, step: Step, identifier: str) -> Any:
        store = self._table_store(step, identifier)
        return self.topology.global_table(self.topic(step["topic"]), store)

    def _to(self, step: Step, _: str) -> None:
        self._from(step).to(self.topic(step["topic"]))

    # Record by record, row by row.

    def _is_table(self, step: Step) -> bool:
        return isinstance(self._from(step), Table)

    def _filter(self, step: Step, _: str) -> Any:
        more = (self._named(step),) if self._is_table(step) else ()
        return self._from(step).filter(of_record(step["fn"]), *more)

    def _filter_not(self, step: Step, _: str) -> Any:
        more = (self._named(step),) if self._is_table(step) else ()
        return self._from(step).filter_not(of_record(step["fn"]), *more)

    def _map_values(self, step: Step, _: str) -> Any:
        more = (self._named(step),) if self._is_table(step) else ()
        return self._from(step).map_values(of_value(step["fn"]), *more, value=json)

    def _flat_map_values(self, step: Step, _: str) -> Any:
        return self._from(step).flat_map_values(of_value(step["fn"]), value=json)

    def _map(self, step: Step, _: str) -> Any:
        key, value = of_record(step["key"]), of_record(step["value"])
        return self._from(step).map(
            lambda record: record.with_key(key(record)).with_value(value(record)),
            key=KEYS,
            value=json,
        )

    def _flat_map(self, step: Step, _: str) -> Any:
        function = of_record(step["fn"])
        return self._from(step).flat_map(function, key=KEYS, value=json)

    def _select_key(self, step: Step, _: str) -> Any:
        return self._from(step).rekey(self._selector(step, "fn", "key"), key=KEYS)

    def _peek(self, step: Step, _: str) -> Any:
        return self._from(step).peek(lambda _: None)

    def _split(self, step: Step, identifier: str) -> None:
        tests = [of_record(named) for named in step["branches"]]
        rest = bool(step.get("rest"))
        branches = self._from(step).split(*tests, rest=rest)
        names = [f"{identifier}-{place}" for place in range(len(tests))]
        names += [f"{identifier}-rest"] if rest else []
        self.made.update(zip(names, branches, strict=True))

    def _merge(self, step: Step, _: str) -> Any:
        others = step["other"] if isinstance(step["other"], list) else [step["other"]]
        return self._from(step).merge(*(self.made[other] for other in others))

    def _repartition(self, step: Step, identifier: str) -> Any:
        # Kafka's driver has one partition of everything, whatever a case says.
        return self._from(step).repartition(identifier, key=KEYS, value=json)

    def _to_stream(self, step: Step, _: str) -> Any:
        return self._from(step).to_stream()

    def _to_table(self, step: Step, identifier: str) -> Any:
        return self._from(step).to_table(self._table_store(step, identifier))

    def _process(self, step: Step, identifier: str) -> Any:
        supply, stores = processor_of(step, self._store(step, identifier), self._prefix)
        return self._from(step).process(
            supply, name=identifier, stores=stores, key=KEYS, value=json
        )

    # Groups and windows.

    def _group_by_key(self, step: Step, _: str) -> Any:
        return self._from(step).group_by_key(key=KEYS, value=json)

    def _group_by(self, step: Step, _: str) -> Any:
        if self._is_table(step):
            key, value = of_record(step["key"]), of_record(step.get("value", ["value"]))
            return self._from(step).group_by(key, value, key_serde=KEYS, value_serde=json)
        key = self._selector(step, "fn", "key")
        return self._from(step).group_by(key, key=KEYS, value=json)

    def _tumbling(self, step: Step, _: str) -> Any:
        return self._from(step).window(tumbling(step["size"], grace_ms=step.get("grace", 0)))

    def _hopping(self, step: Step, _: str) -> Any:
        grace_ms = step.get("grace", 0)
        return self._from(step).window(hopping(step["size"], step["advance"], grace_ms=grace_ms))

    def _sliding(self, step: Step, _: str) -> Any:
        return self._from(step).window(sliding(step["difference"], grace_ms=step.get("grace", 0)))

    def _session(self, step: Step, _: str) -> Any:
        return self._from(step).window(session(step["gap"], grace_ms=step.get("grace", 0)))

    def window_step(self, step: Step) -> Step | None:
        """Return the step of the windows that an aggregate is of; ``None`` without."""
        parent = self.steps.get(step.get("from", ""), {})
        windows = ("tumbling", "hopping", "sliding", "session")
        return parent if parent.get("op") in windows else None

    def retention_ms(self, step: Step) -> int:
        """Return for how long a case lists the windows of an aggregate.

        Kafka's store of windows that come out when they are closed lists one millisecond more.
        """
        window = self.window_step(step) or {}
        grace = window.get("grace", 0)
        kept: int = step.get("retention", 0)
        if "retention" not in step:
            spans = {"session": "gap", "sliding": "difference"}
            span = window[spans.get(window["op"], "size")]
            kept = (2 * span if window["op"] == "sliding" else span) + grace
        is_one_more = window["op"] != "session" and self._emission(step, window).on_close
        return kept + 1 if is_one_more else kept

    def _aggregate_store(self, step: Step, identifier: str) -> tuple[Any, dict[str, Any]]:
        window = self.window_step(step)
        if window is None:
            return self._store(step, identifier), {}
        name, grace = step.get("store", identifier), window.get("grace", 0)
        retention_ms, emit = self.retention_ms(step), self._emission(step, window)
        if window["op"] == "session":
            retention_ms = max(retention_ms, window["gap"] + grace + 1)
            kept: Any = Session(name, retention_ms=retention_ms, key=KEYS, value=json)
            return kept, {"emit": emit}
        size_ms: int = window["difference"] if window["op"] == "sliding" else window["size"]
        if window["op"] == "sliding":
            retention_ms = max(retention_ms, 2 * size_ms + grace + 2)
        retention_ms = max(retention_ms, size_ms + grace)
        kept = Window(name, retention_ms=retention_ms, window_size_ms=size_ms, key=KEYS, value=json)
        return kept, {"emit": emit}

    def _emission(self, step: Step, window: Step) -> Emission:
        return closed() if "close" in (step.get("emit"), window.get("emit")) else updates()

    def _count(self, step: Step, identifier: str) -> Any:
        store, more = self._aggregate_store(step, identifier)
        return self._from(step).count(store, **more)

    def _reduce(self, step: Step, identifier: str) -> Any:
        store, more = self._aggregate_store(step, identifier)
        folds = [fold(step[name]) for name in ("fold", "unfold") if name in step]
        return self._from(step).reduce(*folds, store, **more)

    def _aggregate(self, step: Step, identifier: str) -> Any:
        store, more = self._aggregate_store(step, identifier)
        folds = [fold(step[name]) for name in ("fold", "unfold") if name in step]
        window = self.window_step(step)
        if window is not None and window["op"] == "session":
            more["merge"] = merged
        return self._from(step).aggregate(step.get("initial"), *folds, store, **more)

    def _cogroup(self, step: Step, identifier: str) -> Any:
        """Return the groups with their folds, or, with a beginning, what they are folded into."""
        group: Any = None
        for source, named in cogrouped_parts(step):
            made = self.made[source]
            if isinstance(made, Cogrouped):
                group = made
            elif group is None:
                group = made.cogroup(fold(named))
            else:
                group = group.cogroup(made, fold(named))
        if "initial" not in step:
            return group
        return group.aggregate(step["initial"], self._store(step, identifier))

    def _suppress(self, step: Step, identifier: str) -> Any:
        limits = suppression_limits(step)
        return self._from(step).suppress(**limits, name=identifier)

    # Joins.

    def _join(self, step: Step, identifier: str) -> Any:
        left, right, how = self._from(step), self.made[step["other"]], step.get("how", "inner")
        joins: dict[tuple[str, str], Callable[[], Any]] = {
            ("Stream", "Stream"): lambda: left.join(
                right,
                plus,
                within=within(
                    step.get("within", 0),
                    before_ms=step.get("before"),
                    after_ms=step.get("after"),
                    grace_ms=step.get("grace", 0),
                ),
                how=how,
                name=identifier,
                value=json,
            ),
            ("Stream", "Table"): lambda: self._stream_table(left, right, step, identifier),
            ("Stream", "GlobalTable"): lambda: left.join(
                right,
                plus,
                key=self._selector(step, "fn", "key"),
                how=how,
                name=identifier,
                value=json,
            ),
            ("Table", "Table"): lambda: left.join(
                right,
                plus,
                self._named(step),
                how=how,
                name=identifier,
                **({"foreign_key": of_value(step["foreign_key"])} if "foreign_key" in step else {}),
            ),
        }
        return joins[_kind(left), _kind(right)]()

    def _stream_table(self, left: Any, right: Any, step: Step, identifier: str) -> Any:
        how = step.get("how", "inner")
        if "grace" in step:
            return left.join_as_of(
                right, plus, how=how, wait_ms=step["grace"], name=identifier, value=json
            )
        return left.join(right, plus, how=how, name=identifier, value=json)


def _kind(made: object) -> str:
    return "Table" if isinstance(made, Table) else type(made).__name__
