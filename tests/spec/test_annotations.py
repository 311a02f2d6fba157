"""``Any`` is in the contract and the semantics only where CONTRIBUTING.md has it."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "statestores"

WITHOUT_A_TYPE_OF_OURS = {
    "spi/serde.py: encode_array",  # Arrow, which the contract must not import
    "spi/serde.py: decode_array",
    "spi/serde.py: arrow_type",
    "files/strict_json.py: parse",  # JSON
}


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Yield the annotations of a function's parameters and of its result."""
    given = function.args
    some = (given.vararg, given.kwarg)
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, some)):
        if each.annotation is not None:
            yield each.annotation
    if function.returns is not None:
        yield function.returns


def is_any(annotation: ast.expr) -> bool:
    """Whether an annotation is `Any`, or a union with it, and not a type of which it is a part."""
    if isinstance(annotation, ast.BinOp):
        return is_any(annotation.left) or is_any(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def test_no_parameter_and_no_result_is_any() -> None:
    """A caller's checker and an author's would fall silent there."""
    found = {
        f"{path.relative_to(SOURCE)}: {node.name}"
        for room in ("spi", "files", "metering", "semantics")
        for path in (SOURCE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if any(map(is_any, annotations(node)))
    }

    assert found == WITHOUT_A_TYPE_OF_OURS
