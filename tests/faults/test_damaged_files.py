"""Damage to every kind of file that we write: an error that names it, or exactly what was there.

The tests of each format look closer (``tests/changelog/test_damage.py`` and others). This is the
table of all files and all kinds of damage, so that no combination is missing.
"""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from lives import PARTITIONS, STAGED, STORE, content_at, logged_life, staged_life

import statestores as ss
from statestores.errors import StateStoreError
from statestores.failpoints import arm, disarm
from statestores.files.directory_lock import LOCK_FILE
from statestores.logged_store import open_logged_store
from statestores.reading.partition_reader import PartitionReader
from statestores_conformance.many_cases import for_each

_SEED = 14
_FLIPS = 4
_CHANGES = 100
"""More than a life makes."""

Content = dict[bytes, bytes]


class _Dead(BaseException):
    """Ends a life at a failpoint without ending the process."""


def _nothing(word: str, number: int) -> None:
    """Be the oracle of a life that nobody ends."""


def _die() -> None:
    raise _Dead


def _make_logged(root: Path) -> None:
    logged_life(root, _nothing, backend="sqlite")


def _make_restorable(root: Path) -> None:
    """Leave a snapshot and the changelog after it, and no engine."""
    _make_logged(root)
    partition = root / STORE.name / "0"
    shutil.rmtree(partition / "engine")
    (partition / "engine.json").unlink()


def _make_unfinished(root: Path) -> None:
    """Leave one staged write that is finished, and one that is committed and appended nowhere."""
    staged_life(root, _nothing, first=1, writes=1)
    arm("publish.committed", _die)
    try:
        with suppress(_Dead):
            staged_life(root, _nothing, first=2, writes=1)
    finally:
        disarm()


def _open_logged(root: Path) -> Content:
    with open_logged_store(root, STORE.name, 0, backend="sqlite") as logged:
        return dict(logged.store.range())


def _read_staged(root: Path) -> Content:
    """Read what an unfinished write makes of the store, and finish it."""
    state = ss.StateRoot.open(root)
    shown: Content = {}
    for number in range(PARTITIONS):
        reader = PartitionReader(state.partition(STAGED.name, number), STAGED)
        for batch in reader.rows():
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            shown.update(zip(keys, values, strict=True))
    opened: Content = {}
    for number in range(PARTITIONS):
        with open_logged_store(state, STAGED.name, number, backend="memory") as logged:
            opened |= dict(logged.store.range())

    assert opened == shown
    return opened


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file, and who reads it."""

    make: Callable[[Path], None]
    """Makes a state root that has such a file."""

    pattern: str
    """Where the file is."""

    read: Callable[[Path], Content]
    """Opens what the file belongs to, as its next user does, and returns the content."""

    allowed: tuple[Content, ...] = ()
    """Older contents that may be found: nobody can tell a damaged tail from one that is torn."""


_KINDS = {
    "statestores.json": Kind(_make_logged, "statestores.json", _open_logged),
    "engine.json": Kind(_make_logged, "logged/0/engine.json", _open_logged),
    "changelog segment": Kind(_make_logged, "logged/0/changelog/*.log", _open_logged),
    "changelog without engine": Kind(
        _make_restorable,
        "logged/0/changelog/*.log",
        _open_logged,
        tuple(content_at(offset) for offset in range(_CHANGES)),
    ),
    "changelog lock": Kind(_make_logged, f"logged/0/changelog/{LOCK_FILE}", _open_logged),
    "manifest": Kind(_make_restorable, "logged/0/snapshots/*/manifest.json", _open_logged),
    "snapshot data": Kind(_make_restorable, "logged/0/snapshots/*/data-*.arrow", _open_logged),
    "write intent": Kind(_make_unfinished, "staged/.writes/intent.json", _read_staged),
    "staged file": Kind(_make_unfinished, "staged/.writes/write-2-*/*.arrow", _read_staged),
    "staging lock": Kind(_make_unfinished, f"staged/.writes/{LOCK_FILE}", _read_staged),
}


def _flip(file: Path, dice: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    file.write_bytes(data)


def _cut(file: Path, dice: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: dice.randrange(max(1, len(data)))])


def _cut_one_byte(file: Path, dice: random.Random) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _empty(file: Path, dice: random.Random) -> None:
    file.write_bytes(b"")


def _zeros(file: Path, dice: random.Random) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _garbage(file: Path, dice: random.Random) -> None:
    file.write_bytes(dice.randbytes(3_000))


def _longer(file: Path, dice: random.Random) -> None:
    file.write_bytes(file.read_bytes() + dice.randbytes(50))


def _directory(file: Path, dice: random.Random) -> None:
    file.unlink()
    file.mkdir()


def _unreadable(file: Path, dice: random.Random) -> None:
    """Put what nobody can read in its place, not even root: a link to itself."""
    file.unlink()
    file.symlink_to(file.name)


_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    **{f"flipped bit {number}": _flip for number in range(_FLIPS)},
    "cut anywhere": _cut,
    "cut by a byte": _cut_one_byte,
    "emptied": _empty,
    "zeros": _zeros,
    "garbage": _garbage,
    "longer": _longer,
    "a directory": _directory,
    "unreadable": _unreadable,
}


@dataclass(frozen=True, slots=True)
class Source:
    """A state root that is copied and damaged."""

    path: Path
    """Where it is; nobody opens it."""

    intact: Content
    """What its next user finds in a copy that has no damage."""


Sources = dict[Callable[[Path], None], Source]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Make and read each kind of state root once."""
    made: Sources = {}
    for make, read in {kind.make: kind.read for kind in _KINDS.values()}.items():
        directory = tmp_path_factory.mktemp("source")
        make(directory / "state")
        copy = Path(shutil.copytree(directory / "state", directory / "intact"))
        made[make] = Source(directory / "state", read(copy))
    return made


def _kept(root: Path) -> dict[str, bytes | str]:
    """Return what must not change: all but the engine's own files, and the owners' names."""
    kept: dict[str, bytes | str] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if "/engine/" in name or path.name == LOCK_FILE:
            continue
        if path.is_symlink():
            kept[name] = f"link to {path.readlink()}"
        elif path.is_file():
            kept[name] = path.read_bytes()
    return kept


@pytest.mark.spec("COM-27", "LOG-11", "LOG-16", "SNP-4", "LGS-8")
@pytest.mark.parametrize("kind", _KINDS)
@for_each("damage", _DAMAGES)
def test_damage_is_an_error_or_harmless(
    kind: str,
    damage: str,
    sources: Sources,
    tmp_path: Path,
) -> None:
    """Never wrong data, never somebody else's exception, and nothing is wiped to get on."""
    chosen, root = _KINDS[kind], tmp_path / "state"
    source, intact = sources[chosen.make].path, sources[chosen.make].intact
    for place in sorted(path.relative_to(source) for path in source.glob(chosen.pattern)):
        if root.exists():
            shutil.rmtree(root)
        shutil.copytree(source, root)
        _DAMAGES[damage](root / place, random.Random(f"{_SEED} {place} {damage}"))
        before = _kept(root)
        try:
            found = chosen.read(root)
        except StateStoreError as error:
            told, after = f"{error} {error.__cause__}", _kept(root)
        else:
            assert found == intact or found in chosen.allowed, f"nobody noticed, in {place}"
            continue

        assert str(tmp_path) in told or STORE.name in told or STAGED.name in told
        assert {name: after.get(name) for name in before} == before, f"{place}: {told}"


@pytest.mark.spec("COM-27")
@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_state_root_is_not_begun_anew_over_a_damaged_one(damage: str, tmp_path: Path) -> None:
    """`StateRoot.create` opens what is there; it once replaced a link that could not be read."""
    root = tmp_path / "state"
    ss.StateRoot.create(root).add_store(STORE, partitions=1)
    _DAMAGES[damage](root / "statestores.json", random.Random(damage))
    before = _kept(root)
    with suppress(StateStoreError):
        ss.StateRoot.create(root)

    assert _kept(root) == before
