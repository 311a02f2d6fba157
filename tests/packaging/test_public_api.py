"""The public API is what docs/api.txt says, until somebody says that it changes."""

import difflib

import write_public_api

import statestores as ss


def test_the_public_names_are_those_of_the_list() -> None:
    """A change needs `make api`, an entry in CHANGELOG.md, and what docs/stability.md asks for."""
    listed = write_public_api.LIST.read_text(encoding="utf-8").splitlines()
    found = write_public_api.text().splitlines()
    changes = list(difflib.unified_diff(listed, found, "docs/api.txt", "now", lineterm="", n=0))

    assert not changes, "\n".join(changes)


def test_the_list_tells_parameters_apart() -> None:
    """It would not notice a change otherwise."""
    lines = list(write_public_api.lines())

    assert len(lines) > 500
    assert len(lines) == len(set(lines))
    (opening,) = [line for line in lines if line.startswith("def statestores.open_store(")]
    assert "*, backend=None" in opening
    assert sum(line.startswith("statestores.errors.") for line in lines) > 20
    assert ss.open_store.__name__ in opening
