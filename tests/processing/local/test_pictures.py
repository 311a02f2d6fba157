"""The picture of a topology that a run leaves in its state."""

from pathlib import Path

import pytest

import statestores as ss
from statestores.processing import Topic, Topology, run

LINES = Topic("lines", key=ss.utf8, value=ss.int64)


def _run(directory: Path) -> list[str]:
    """Run the topology, and return which files lie beside its note."""
    shop = Topology("shop")
    shop.stream(LINES).group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    state = directory / "state"
    run(shop, state=state, topics=directory / "topics", until="idle", backend="memory")
    return sorted(file.name for file in (state / "@tasks").iterdir() if file.is_file())


def test_a_picture_that_cannot_be_left_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its file could not be replaced, each start left one more file, for ever."""
    replace = Path.replace

    def refuse(file: Path, target: Path) -> Path:
        if target.name == "topology.mmd":
            raise PermissionError(13, "Permission denied", str(target))
        return replace(file, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refuse)
        without = [_run(tmp_path) for _ in range(2)]

    assert without[0] == without[1]
    assert _run(tmp_path) == sorted([*without[0], "topology.mmd"])
