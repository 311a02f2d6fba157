"""The small changes of a node of a syntax tree: what programmers get wrong, and reviewers overlook.

Comparisons and their boundaries, operators, constants, names that come in pairs, swapped arguments,
conditions that always or never hold, and statements that are forgotten.
"""

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}

Change: TypeAlias = Callable[[ast.AST], ast.AST]
"""Changes a node in place, or returns another one for it."""


def changes_of(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yield each change of *node*, in words and as what makes it."""
    yield from _of_expression(node)
    yield from _of_statement(node)


def _of_expression(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare():
            yield from _of_comparison(node)
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield f"{_name(node.op)} -> {other.__name__}", _setting("op", other())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            new = _OPERATORS[type(node.op)]
            yield f"{_name(node.op)} -> {new.__name__}", _setting("op", new())
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed", lambda found: found.operand  # type: ignore[attr-defined]
        case ast.Constant():
            yield from _of_constant(node)
        case ast.Call():
            yield from _of_call(node)


def _of_comparison(node: ast.Compare) -> Iterator[tuple[str, Change]]:
    for index, operator in enumerate(node.ops):
        for new in _COMPARISONS.get(type(operator), ()):

            def change(found: ast.AST, index: int = index, new: type[ast.cmpop] = new) -> ast.AST:
                found.ops[index] = new()  # type: ignore[attr-defined]  # a comparison
                return found

            yield f"{_name(operator)} -> {new.__name__}", change


def _of_constant(node: ast.Constant) -> Iterator[tuple[str, Change]]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} -> {not value}", _setting("value", not value)
    elif isinstance(value, int):
        for other in (value + 1, value - 1) if value else (1,):
            yield f"{value} -> {other}", _setting("value", other)
    elif isinstance(value, bytes):
        yield f"{value!r} + 01", _setting("value", value + b"\x01")


def _of_call(node: ast.Call) -> Iterator[tuple[str, Change]]:
    if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        new = _NAMES[node.func.id]
        yield f"{node.func.id} -> {new}", _setting("func", ast.Name(new, ast.Load()))
    plain = [each for each in node.args if not isinstance(each, ast.Starred)]
    if len(plain) == len(node.args) == 2:
        yield "arguments swapped", _setting("args", node.args[::-1])


def _of_statement(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.If() | ast.IfExp() | ast.While():
            for value in (True, False):
                if not (value and isinstance(node, ast.While)):  # it would not end
                    yield f"condition -> {value}", _setting("test", ast.Constant(value))
        case ast.ExceptHandler(type=ast.expr()):
            yield "handler raises again", _setting("body", [ast.Raise()])
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield "returns None", _setting("value", ast.Constant(None))
        case ast.Assign() | ast.AugAssign() | ast.Delete() | ast.Continue() | ast.Break():
            yield "removed", lambda _: ast.Pass()
        case ast.Raise():
            yield "raise removed", lambda _: ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "call removed", lambda _: ast.Pass()
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield "yield removed", lambda _: ast.Pass()


def _setting(field: str, value: object) -> Change:
    def change(node: ast.AST) -> ast.AST:
        if isinstance(value, ast.expr) and isinstance(getattr(node, field), ast.expr):
            ast.copy_location(value, getattr(node, field))
        setattr(node, field, value)
        return node

    return change


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _name(node: ast.AST) -> str:
    return type(node).__name__
