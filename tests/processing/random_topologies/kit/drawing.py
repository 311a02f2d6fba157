"""What is known while a topology is drawn: its flows, stores and outputs, and what is to fail."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from drawn_records import SERDES, Source, is_bad

import statestores as ss
from statestores.processing import Topic, Topology, windowed


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream or a table, with the names of its serdes."""

    steps: Any
    """The stream or the table."""

    key: str
    value: str
    is_table: bool = False
    is_windowed: bool = False
    """Whether its keys are windows'."""

    is_updated: bool = False
    """Whether its windows come out before they are closed."""

    history_ms: int = 0
    """How far back it can be asked, if it is a versioned table."""

    @property
    def key_serde(self) -> Any:
        """The serde of its keys."""
        own = SERDES[self.key]
        return windowed(own) if self.is_windowed else own

    @property
    def value_serde(self) -> Any:
        """The serde of its values."""
        return SERDES[self.value]


@dataclass(slots=True)
class Drawing:
    """A topology that is being drawn."""

    random: random.Random
    topology: Topology
    may_fail: bool
    """Whether functions may fail: the policy goes on, or is to stop."""

    prefix: str = ""
    """What the names of its topics begin with, where those of several topologies lie together."""

    sources: list[Source] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Each step in words, for whoever looks at a difference."""

    streams: list[Flow] = field(default_factory=list)
    tables: list[Flow] = field(default_factory=list)
    versioned: list[Flow] = field(default_factory=list)
    global_tables: list[Flow] = field(default_factory=list)
    is_crossed: bool = False
    """Whether something goes through a topic of the topology's own: what follows must not meet
    what does not, since the order of the two is nobody's promise."""

    goes_around: bool = False
    """Whether two tables meet through such topics: then only what is there at the end is."""

    _names: int = 0

    @property
    def has_several_sources(self) -> bool:
        """Whether records of several topics meet."""
        return len(self.sources) > 1

    def name(self, kind: str) -> str:
        """Return a new name."""
        self._names += 1
        return f"{kind}{self._names}"

    def store_name(self, kind: str) -> str:
        """Return the name of a new store."""
        name = self.name(kind)
        self.stores.append(name)
        return name

    def say(self, flow: Flow, text: str) -> None:
        """Note a step."""
        self.said.append(f"{flow.steps!r}.{text}")

    def failing(self, where: str) -> Callable[[Any], None]:
        """Return what raises for bad values in half of the cases, if anything may fail."""
        fails = self.may_fail and self.random.random() < 0.5

        def check(*values: Any) -> None:
            if fails and any(map(is_bad, values)):
                raise ValueError(f"bad in {where}")

        return check

    def joiner(self, where: str) -> Callable[[Any, Any], Any]:
        """Return a function of two values that shows both."""
        check = self.failing(where)

        def join(one: Any, other: Any) -> Any:
            check(one)
            return [repr(one), repr(other)]

        return join

    def key_value(self, name: str, key: str, value: str) -> Any:
        """Return the specification of a key-value store."""
        return ss.KeyValue(name, key=SERDES[key], value=SERDES[value])

    def write(self, flow: Flow) -> None:
        """Write *flow* to a topic, at times with serdes that do not fit."""
        drawn = self.random
        steps = flow.steps.to_stream() if flow.is_table else flow.steps
        key, value = flow.key_serde, flow.value_serde
        if self.may_fail and not flow.is_windowed and drawn.random() < 0.07:
            key = ss.int64
        if self.may_fail and drawn.random() < 0.15:
            value = drawn.choice([ss.int64, ss.utf8, ss.json])
        name = self.name("out")
        steps.to(Topic(self.prefix + name, key=key, value=value))
        self.outputs.append(name)
        self.say(flow, f"to({name}, {key!r}, {value!r})")
