"""What an engine says of its options, taken at its word: names, values, bounds, and a budget."""

import random
import re
import shutil
from contextlib import suppress
from itertools import count, product
from pathlib import Path

import pytest

from statestores.errors import (
    InvalidOptionError,
    MemoryBudgetExceededError,
    StateStoreError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.spi import Durability, Engine, MemoryBudget
from statestores_conformance.engine.disk.altered_files import (
    bits_of_pairs,
    bits_of_what_was_added,
    bytes_of,
    with_a_flipped_bit,
    with_zeros_in_what_was_added,
)
from statestores_conformance.engine.disk.large_batches import AHEAD_BYTES, leave_a_large_batch
from statestores_conformance.intensity import seed
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    OpenEngine,
    Pairs,
    durability_of,
    open_files_below,
    pairs_of,
)
from statestores_conformance.subjects.openers import options_of

_NOBODYS = "no_such_option"
_BUDGET = "memory_budget"
"""How an option for a `MemoryBudget` is called."""

_TOO_LITTLE, _TOO_MUCH = -1, 1 << 80
_MIB = 1024 * 1024
_LEAST_BUDGET_BYTES = 256 * 1024
_SEED = 20261131
_MASK = 4
_MOST_BITS = 8
"""How many bits are flipped for each named value."""
_SIZE = "_bytes"
"""How options end that say how much an engine may have: with the least, logs are short."""
_LARGE_BYTES = 4 * _MIB
_PAGE = 64 * 1024
_TURNS = 4
_ROUNDS = 30
_INGESTED = [(b"%05d" % number, b"v" * 20) for number in range(2_000)]
_PAIRS = [(b"%02d" % number, b"v%d" % number * 20) for number in range(40)]


class _Opening:
    """Opens engines like the author's with one option more, each in a place of its own."""

    def __init__(self, engine: Engine, open_engine: OpenEngine, root: Path) -> None:
        self._kind = type(engine)
        self._open_engine = open_engine
        self._options = options_of(open_engine)
        self._root = root
        self._numbers = count()

    def place(self) -> Path:
        """Return a path where nothing is yet."""
        return self._root / f"options-{next(self._numbers)}"

    def open(self, path: Path, name: str, value: object) -> Engine:
        """Open the engine at *path* with the option *name*."""
        return self._kind.open(path, {**self._options, name: value})

    def refusal(self, name: str, value: object) -> str | None:
        """Return what is said against *value*, or ``None`` when the engine works with it."""
        path = self.place()
        try:
            engine = self.open(path, name, value)
        except InvalidOptionError as error:
            return str(error)
        with engine:
            _use(engine)
        if engine.capabilities.persistent:
            with self._open_engine(path) as again:
                assert pairs_of(again) == _PAIRS, f"written with {name}={value!r}"
        return None

    def check_damage(self, name: str, value: object) -> bool:
        """Fail if damage in what was written last is data for an engine with this *value*.

        It opens with the batches before the damage, as an option may say, or raises. And what it
        opens with is what is there from then on. Return whether it opens with any damage in a log.
        """
        path, live, damaged = self.place(), self.place(), self.place()
        with self.open(path, name, value) as engine:
            if not engine.capabilities.persistent or not engine.capabilities.detects_corruption:
                return False
            files, states = [bytes_of(path)], [pairs_of(engine)]
            for batch in ({b"a": b"1"}, {b"a long key": b"a long value"}):
                engine.apply(batch, durability_of(engine))
                files.append(bytes_of(path))
                states.append(pairs_of(engine))
            shutil.copytree(path, live)
        chance = random.Random(seed(_SEED))  # noqa: S311  # which bytes
        bits = bits_of_what_was_added(files[0], files[1], _MASK, _MOST_BITS, chance)
        copies = with_a_flipped_bit(live, damaged, bits)
        found = [self._found(name, value, copy, states, what) for copy, what in copies]
        for copy, what in with_zeros_in_what_was_added(live, damaged / "zeroed", *files[:2]):
            self._found(name, value, copy, states, what)
        closed = bits_of_pairs(bytes_of(path), states[-1][-1:])
        for copy, what in with_a_flipped_bit(path, damaged, closed):
            self._found(name, value, copy, states, what)
        return None not in found and found != [states[-1]] * len(found)

    def check_large_damage(self, others: dict[str, object], name: str, value: object) -> None:
        """Do as `check_damage` does with what a large batch leaves, in one log or several.

        An engine with the options *others* has written it, and one with the author's own looks at
        it as well as that with this *value*.
        """
        left, damaged = self.place(), self.place()
        kind = f"{self._kind.__module__}:{self._kind.__qualname__}"
        large = leave_a_large_batch(kind, {**self._options, **others}, left, _LARGE_BYTES)
        if large is None:
            return
        pairs = [(b"first", b"v"), (b"large-0", large), (b"later", b"v")]
        states = [[], [(b"first", large[:AHEAD_BYTES])], *(pairs[:number] for number in (1, 2, 3))]
        for file, size in [(path, path.stat().st_size) for path in left.rglob("*")]:
            if size < _LARGE_BYTES // 2:
                continue
            page = size // 2 // _PAGE * _PAGE
            whole = file.read_bytes()
            losses = {
                "nothing is lost": (whole, 4),
                "a byte is cut off": (whole[:-1], 2),
                "all is cut off": (b"", 0),
                "a page is zeros": (whole[:page] + bytes(_PAGE) + whole[page + _PAGE :], 2),
            }
            for (what, (data, left_batches)), again in product(losses.items(), (None, value)):
                shutil.copytree(left, damaged)
                (damaged / file.relative_to(left)).write_bytes(data)
                found = self._found(name, again, damaged, states, f"{what} of {file.name}")

                assert found in states[left_batches:] or (found is None and data != whole), what
                shutil.rmtree(damaged)

    def check_ingestion(self, options: dict[str, object]) -> None:
        """Fail if a snapshot loses what was ingested before it while an engine writes much.

        With the least of each size among *options*, files are moved and merged soon.
        """
        path = self.place()
        with self._kind.open(path, {**self._options, **options}) as engine:
            if not engine.capabilities.bulk_ingest:
                return
            engine.ingest(_INGESTED)
            noise = random.Random(seed(_SEED))  # noqa: S311  # repeatable; nothing shortens it
            ingested = dict(_INGESTED)
            content = dict(_INGESTED)
            with engine.snapshot() as snapshot:
                for number in range(_ROUNDS):
                    batch: dict[bytes, bytes | None] = {
                        key: b"w" if at % 2 else None
                        for at, (key, _) in enumerate(_INGESTED)
                        if at // 2 % 2 == number % 2
                    }
                    batch |= {b"x%03d" % n: noise.randbytes(100) for n in range(number, 300)}
                    engine.apply(dict(batch), Durability.PROCESS_CRASH)
                    content |= {key: value for key, value in batch.items() if value is not None}
                    for key in [key for key, value in batch.items() if value is None]:
                        content.pop(key, None)

                    # A scan may go on with what was there; a read of a key looks for it anew.
                    assert pairs_of(snapshot) == _INGESTED
                    assert snapshot.get_many(list(ingested)) == list(ingested.values())
                    assert pairs_of(engine) == sorted(content.items())
        if engine.capabilities.persistent:
            with self._open_engine(path) as again:
                assert pairs_of(again) == sorted(content.items())

    def _found(
        self, name: str, value: object, path: Path, states: list[Pairs], what: str
    ) -> Pairs | None:
        """Return what is in *path*, one of *states* from now on, or nothing if it is refused."""
        try:
            opened = self._open_engine(path) if value is None else self.open(path, name, value)
            with opened:
                found = pairs_of(opened)
        except StoreCorruptedError:
            return None

        assert found in states, f"{name}={value!r}, {what}"
        with self._open_engine(path) as again:
            assert pairs_of(again) == found, f"{name}={value!r}, {what}"
        return found

    def names(self) -> list[str]:
        """Return the options that the engine names when it refuses one that it does not have."""
        unknown = self.refusal(_NOBODYS, "1")

        assert unknown is not None
        words = sorted(set(re.findall(r"[A-Za-z_]\w*", unknown)))
        return [
            word
            for word in words
            if self.refusal(word, object()) != unknown.replace(_NOBODYS, word)
        ]


class EngineOptionTests(EngineFixtures):
    """Every option that an engine names, with every value that it names."""

    @pytest.fixture
    def opening(self, engine: Engine, open_engine: OpenEngine, tmp_path: Path) -> _Opening:
        """Give what opens the engine with other options."""
        return _Opening(engine, open_engine, tmp_path)

    @pytest.mark.spec("ENG-13", "ENG-18")
    def test_options_take_what_they_say(self, opening: _Opening) -> None:
        """With each value and bound that a refusal names the engine works; beyond, it refuses.

        What is written with any of them is read with the author's options. And whatever a named
        value does about damage, it makes no data of it.
        """
        least: dict[str, object] = {}
        lenient = []
        for name in opening.names():
            expected = opening.refusal(name, object())
            if expected is None:
                continue
            for word in _named_values(expected, name):
                assert opening.refusal(name, word) is None
                if opening.check_damage(name, word):
                    lenient.append((name, word))
            for beyond, nearest, step in ((_TOO_LITTLE, min, -1), (_TOO_MUCH, max, 1)):
                refused = opening.refusal(name, beyond)
                bounds = [] if refused is None else _numbers_in(refused.replace(str(beyond), ""))
                if not bounds:
                    continue

                assert name in str(refused)
                assert opening.refusal(name, nearest(bounds)) is None
                assert opening.refusal(name, nearest(bounds) + step) is not None
                if name.endswith(_SIZE):
                    least.setdefault(name, str(nearest(bounds)))
        for name, word in lenient:
            opening.check_large_damage(least, name, word)
        opening.check_ingestion(least)

    @pytest.mark.spec("ENG-13", "ENG-19")
    def test_a_place_in_a_memory_budget_is_given_back(
        self, opening: _Opening, open_engine: OpenEngine
    ) -> None:
        """By `close`, once, and by an opening that fails; no engine opens beyond the budget.

        Whatever its size is, from the least that the engine says to need, it works within it.
        """
        skip_unless_promised(f"the option {_BUDGET}", made=_BUDGET in opening.names())
        budget = MemoryBudget(64 * _MIB, stores=2)
        places = [opening.place() for _ in range(3)]
        first, second = (opening.open(place, _BUDGET, budget) for place in places[:2])
        with pytest.raises(MemoryBudgetExceededError):
            opening.open(places[2], _BUDGET, budget)

        assert budget.open_stores == 2
        assert open_files_below(places[2]) == []
        second.close()
        second.close()
        assert budget.open_stores == 1
        if first.capabilities.persistent:
            with pytest.raises(StoreLockedError):
                opening.open(places[0], _BUDGET, budget)
        with opening.open(places[2], _BUDGET, budget) as third:
            _use(third)
            assert budget.open_stores == 2
        first.close()
        assert budget.open_stores == 0
        _check_sizes(opening)
        _check_neighbours(opening)
        if third.capabilities.persistent:
            _check_failed_openings(opening, places[2], budget)


def _check_sizes(opening: _Opening) -> None:
    """Open the engine within budgets of many sizes, one of which is more memory than there is."""
    for total_bytes in (_LEAST_BUDGET_BYTES, _MIB, 3 * _MIB, 64 * _MIB, 1 << 50):
        budget = MemoryBudget(total_bytes, stores=1)
        try:
            refusal = opening.refusal(_BUDGET, budget)
        except MemoryBudgetExceededError as error:
            needed = min(_numbers_in(str(error).partition(" bytes")[0]))
            # Three quarters are for engines.
            enough = next(n for n in range(needed, 2 * needed) if n - n // 4 >= needed)
            refusal = opening.refusal(_BUDGET, MemoryBudget(enough, stores=1))

            assert budget.engine_bytes < needed

        assert refusal is None
        assert budget.open_stores == 0


def _check_neighbours(opening: _Opening) -> None:
    """Write to two engines of a small budget in turn: none waits for what the other has not used.

    Nor for what it keeps, as long as nobody closes it.
    """
    for total_bytes in (_MIB, 3 * _MIB, 64 * _MIB):
        budget = MemoryBudget(total_bytes, stores=2)
        try:
            first = opening.open(opening.place(), _BUDGET, budget)
        except MemoryBudgetExceededError:
            continue
        with first, opening.open(opening.place(), _BUDGET, budget) as second:
            for number in range(_TURNS):
                batch = {b"%d-%03d" % (number, row): b"v" * 1_000 for row in range(100)}
                for engine in (first, second):
                    engine.apply(dict(batch), Durability.PROCESS_CRASH)
            assert pairs_of(first) == pairs_of(second)
            assert first.get_many(list(batch)) == list(batch.values())
        break


def _check_failed_openings(opening: _Opening, engine: Path, budget: MemoryBudget) -> None:
    """Damage each file of the closed *engine* in turn: whoever cannot open it holds no place."""
    for file in sorted(path for path in engine.rglob("*") if path.is_file()):
        damaged = opening.place()
        shutil.copytree(engine, damaged)
        (damaged / file.relative_to(engine)).write_bytes(b"\xa5" * 4096)
        with suppress(StateStoreError):
            opening.open(damaged, _BUDGET, budget).close()

        assert budget.open_stores == 0
        assert open_files_below(damaged) == []


def _use(engine: Engine) -> None:
    """Write `_PAIRS` to *engine* and read them in every way."""
    engine.apply({b"other": b"v", **dict(_PAIRS[::2])}, Durability.PROCESS_CRASH)
    engine.apply({b"other": None, **dict(_PAIRS[1::2])}, durability_of(engine))
    with engine.snapshot() as snapshot:
        for reader in (engine, snapshot):
            keys = [key for key, _ in _PAIRS]

            assert [reader.get(key) for key in keys] == [value for _, value in _PAIRS]
            assert reader.get(b"other") is None
            assert reader.get_many([*keys, b"other"]) == [*(value for _, value in _PAIRS), None]
            assert reader.first(keys[1]) == _PAIRS[1]
            assert reader.last(b"", keys[-1]) == _PAIRS[-2]
            assert reader.first(b"other") is None
            assert list(reader.scan(b"")) == _PAIRS
            assert list(reader.scan(b"", reverse=True)) == _PAIRS[::-1]


def _named_values(expected: str, name: str) -> list[str]:
    """Return the values that the message *expected* offers for the option *name*."""
    quoted = {one or other for one, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", expected)}
    words = {word for word in ("true", "false", "none") if re.search(rf"\b{word}\b", expected)}
    return sorted((quoted | words) - {name})


def _numbers_in(text: str) -> list[int]:
    """Return the whole numbers in *text*."""
    return [int(number) for number in re.findall(r"(?<![\w.-])-?\d+\b(?!\.\d)", text)]
