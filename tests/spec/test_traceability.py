"""Every MUST and SHOULD of the specification is cited by a test, and every citation exists."""

import ast
import gc
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from statestores_conformance.requirements import read_specification

_ROOT = Path(__file__).parents[2]

_UNTESTABLE = {
    "ASM": "an assumption is about the machine below us, not about what we do",
}
"""Series that no test can prove, and why."""

_NOT_PROVED = {
    "COM-26": "a power failure cannot be caused here; that batches survive in order is ENG-27, "
    "which kills prove at either durability",
}
"""Single requirements that no test can prove, and why."""

_TABLE_OF_MARKERS = "*requirements_of("
"""How a citation begins that names what vectors cite: `test_specification.py` looks at those."""


def _requirements() -> dict[str, str]:
    """Return the level of each requirement."""
    found = read_specification(_ROOT / "spec", levels={})
    repeated = [name for name, times in Counter(row.id for row in found).items() if times > 1]
    assert repeated == [], "numbers that are given twice"
    return {row.id: row.obligation for row in found}


@cache
def _modules() -> dict[Path, ast.Module]:
    """Return each module of tests that cites something. Reading them takes a second.

    It takes three if garbage is looked for meanwhile: again and again, in all trees so far.
    """
    gc.disable()
    try:
        return {
            path.relative_to(_ROOT): ast.parse(text)
            for folder in ("conformance", "tests")
            for path in sorted((_ROOT / folder).rglob("*.py"))
            if "mark.spec" in (text := path.read_text("utf-8"))
        }
    finally:
        gc.enable()


@cache
def _citations(without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return for each cited requirement the tests that cite it.

    The tests *without* some marks are those that a shorter run has.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in _modules().items():
        for line, identifier in _cited_in(tree, without):
            found[identifier].append(f"{path}:{line}")
    return found


def _nodes(tree: ast.AST, without: tuple[str, ...] = ()) -> Iterator[ast.AST]:
    """Yield the nodes of *tree*, but for what has one of the marks *without*, if need be all.

    The body of a function cites nothing: it is nearly all that there is, and takes seconds.
    """
    marks: list[ast.expr] = getattr(tree, "decorator_list", [])
    if isinstance(tree, ast.Module):
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                marks = getattr(node.value, "elts", [node.value])
    if any(isinstance(each, ast.Attribute) and each.attr in without for each in marks):
        return
    if isinstance(tree, ast.ClassDef | ast.FunctionDef):
        yield from chain.from_iterable(map(ast.walk, tree.decorator_list))
    elif not isinstance(tree, ast.Module):
        yield from ast.walk(tree)
    if isinstance(tree, ast.ClassDef | ast.Module):
        for node in tree.body:
            yield from _nodes(node, without)


def _cited_in(tree: ast.AST, without: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """Yield line and identifier of each ``pytest.mark.spec(...)`` of a module."""
    for node in _nodes(tree, without):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "spec"
            and ast.unparse(node.func) == "pytest.mark.spec"
        ):
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield node.lineno, str(argument.value)
                else:
                    assert ast.unparse(argument).startswith(_TABLE_OF_MARKERS)


def test_the_specification_is_found() -> None:
    """The other tests compare something: there are requirements and citations in number."""
    assert len(_requirements()) > 100
    assert len(_citations()) > 100


def test_every_must_and_should_is_cited() -> None:
    """No requirement is merely written."""
    cited = set(_citations())
    missing = [
        identifier
        for identifier, level in _requirements().items()
        if level in ("MUST", "SHOULD")
        and identifier not in cited
        and identifier not in _NOT_PROVED
        and identifier.partition("-")[0] not in _UNTESTABLE
    ]

    assert missing == []


def test_what_is_left_to_long_runs_repeats_another_test() -> None:
    """Whatever is required, a test of `make test` proves it as well."""
    assert set(_citations()) - set(_citations(("long", "soak"))) == set()


def test_every_citation_exists() -> None:
    """No test proves what nobody requires: a typing error, or a number that was withdrawn."""
    known = {key for key, level in _requirements().items() if level != "WITHDRAWN"}
    unknown = {key: places for key, places in _citations().items() if key not in known}

    assert unknown == {}


def test_what_is_called_unprovable_is_required_and_not_cited() -> None:
    """The exceptions do not outlive their reasons."""
    requirements, cited = _requirements(), set(_citations())

    assert {key for key in _NOT_PROVED if key not in requirements or key in cited} == set()
