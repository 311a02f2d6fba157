"""Which small changes there are of a module, and how one of them is made.

Only code within functions is changed: what a module does while it is imported has been done by the
time that a test runs. Annotations, defaults, decorators, docstrings and the texts of errors are
left alone.
"""

import ast
from dataclasses import dataclass

from statestores_mutation.operators import changes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One small change of one module."""

    module: str
    """The module, as it is imported."""

    function: str
    """The qualified name of the function in which the change is."""

    line: int
    """The line of the source."""

    last_line: int
    """The last line of the statement: a tracer may name any of them."""

    text: str
    """The line, without what is around it."""

    what: str
    """The change, in a few words."""

    number: int
    """Which node of the module it is, and which change of the node."""

    choice: int

    occurrence: int
    """How many changes of the same words there are before it in the same line of the function."""

    @property
    def key(self) -> str:
        """A name that survives changes elsewhere in the module."""
        again = f" #{self.occurrence + 1}" if self.occurrence else ""
        return f"{self.module}:{self.function}: {self.text} | {self.what}{again}"


def mutations_of(module: str, source: str) -> list[Mutation]:
    """Return every small change of *source*, in the order of its lines."""
    tree = ast.parse(source)
    lines = source.splitlines()
    left_alone = _left_alone(tree)
    functions = _functions(tree)
    statements = _statements(tree)
    counted: dict[tuple[str, str, str], int] = {}
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in functions or id(node) in left_alone:
            continue
        for choice, (what, _) in enumerate(changes_of(node)):
            line: int = node.lineno  # type: ignore[attr-defined]  # every node that is changed
            text = lines[line - 1].strip()
            function = functions[id(node)]
            occurrence = counted.get((function, text, what), 0)
            counted[function, text, what] = occurrence + 1
            found.append(
                Mutation(
                    module=module,
                    function=function,
                    line=line,
                    last_line=statements.get(line, line),
                    text=text,
                    what=what,
                    number=number,
                    choice=choice,
                    occurrence=occurrence,
                )
            )
    return sorted(found, key=lambda mutation: (mutation.line, mutation.number, mutation.choice))


def mutated(source: str, mutation: Mutation) -> ast.Module:
    """Return *source* with one change."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    node = nodes[mutation.number]
    _, change = list(changes_of(node))[mutation.choice]
    replacement = change(node)
    if replacement is not node:
        _Replacing(node, replacement).visit(tree)
    return ast.fix_missing_locations(tree)


class _Replacing(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


def _left_alone(tree: ast.Module) -> set[int]:
    """Return the nodes that are declarations and words, and not what a function does."""
    left: set[int] = set()

    def leave(*nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                left.update(map(id, ast.walk(node)))

    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                leave(node.args, node.returns, *node.decorator_list)
            case ast.AnnAssign():
                leave(node.annotation)
            case ast.Raise():
                leave(node.exc, node.cause)
            case ast.JoinedStr() | ast.Assert() | ast.Expr(value=ast.Constant()):
                leave(node)
    return left


def _functions(tree: ast.Module) -> dict[int, str]:
    """Return in which function each node is that is within one."""
    found: dict[int, str] = {}

    def look(node: ast.AST, name: str, *, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            within, inner = inside, name
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    inner = f"{name}.{child.name}" if name else child.name
                    within = True
                case ast.ClassDef():
                    inner = f"{name}.{child.name}" if name else child.name
                    within = False
                case _ if inside:
                    found[id(child)] = name
            look(child, inner, inside=within)

    look(tree, "", inside=False)
    return found


def _statements(tree: ast.Module) -> dict[int, int]:
    """Return for each line the last one of the innermost simple statement that it is in."""
    ends: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                ends[line] = node.end_lineno or node.lineno
    return ends
