"""Code that notes, while the tests run once, which changes of it a test could see.

A test that does not reach a statement cannot judge its changes. More can be said of two kinds:
``<`` for ``<=`` changes nothing in a test that never compares equals, and a condition taken for
true nothing in one in which it always holds. A change that makes no difference in any test survives
without being run. This is *state infection*: Just, Ernst and Fraser, "Efficient mutation analysis
by propagating and partitioning test executions", ISSTA 2014.

It is taken for granted that comparing, looking into a container and reading an attribute have no
effects of their own.
"""

import ast
import builtins
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from statestores_mutation.mutations import Mutation, mutations_of

_REACH = "__mutation_reach__"
_BEGIN = "__mutation_begin__"
_CONDITION = "__mutation_condition__"
_COMPARE = {
    ast.Lt: "__mutation_lt__",
    ast.LtE: "__mutation_le__",
    ast.Gt: "__mutation_gt__",
    ast.GtE: "__mutation_ge__",
}
_Node = TypeVar("_Node", bound=ast.AST)

_BOUNDARIES = frozenset({"Lt -> LtE", "LtE -> Lt", "Gt -> GtE", "GtE -> Gt"})
_WITHOUT_EFFECTS = frozenset({"len", "isinstance", "issubclass", "abs", "min", "max", "bool"})


@dataclass(frozen=True, slots=True)
class Marks:
    """What a test leaves behind that reaches a change, or in which the change makes a difference.

    One of the marks is enough.
    """

    reached: frozenset[int]
    differs: frozenset[int]


def instrumented(
    module: str, source: str, numbers: Iterator[int]
) -> tuple[ast.Module, dict[str, Marks]]:
    """Return *source* with probes, and the marks of each mutation by its key.

    Marks are taken from *numbers*, so that those of several modules differ.
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    mutations = mutations_of(module, source)
    placing = _Placing(tree, {id(nodes[each.number]) for each in mutations}, numbers)
    found = {each.key: placing.marks_of(nodes[each.number], each) for each in mutations}
    placing.visit(tree)
    return ast.fix_missing_locations(tree), found


class Seen:
    """The marks that the test under way has left; what instrumented code calls."""

    def __init__(self) -> None:
        self._marks: set[int] = set()
        self._begun: Counter[int] = Counter()

    def install(self) -> None:
        """Let instrumented code find this object."""
        names: dict[str, Callable[..., object]] = {
            _REACH: self._marks.add,
            _BEGIN: self._begin,
            _CONDITION: self._condition,
            _COMPARE[ast.Lt]: self._comparing(operator.lt, operator.le),
            _COMPARE[ast.LtE]: self._comparing(operator.le, operator.lt),
            _COMPARE[ast.Gt]: self._comparing(operator.gt, operator.ge),
            _COMPARE[ast.GtE]: self._comparing(operator.ge, operator.gt),
        }
        for name, function in names.items():
            setattr(builtins, name, function)

    def take(self) -> list[int]:
        """Return the marks that were left since the last call."""
        # A condition that was begun and not ended has raised, which neither True nor False does.
        for mark, open_ones in self._begun.items():
            if open_ones:
                self._marks.update((mark, mark + 1))
        found = sorted(self._marks)
        self._marks.clear()
        self._begun.clear()
        return found

    def _begin(self, mark: int) -> None:
        self._begun[mark] += 1

    def _condition(self, mark: int, value: object) -> bool:
        holds = bool(value)
        self._begun[mark] -= 1
        self._marks.add(mark + holds)
        return holds

    def _comparing(
        self, right_one: Callable[..., object], wrong_one: Callable[..., object]
    ) -> Callable[..., object]:
        marks = self._marks

        def compare(mark: int, left: object, right: object) -> object:
            try:
                result = right_one(left, right)
            except BaseException:
                marks.add(mark)
                raise
            try:
                differs = wrong_one(left, right) is not result
            except TypeError:
                differs = True
            if differs:
                marks.add(mark)
            return result

        return compare


class _Placing(ast.NodeTransformer):
    """Puts the probes into a tree."""

    def __init__(self, tree: ast.Module, changed: set[int], numbers: Iterator[int]) -> None:
        self._owners: dict[int, tuple[ast.AST, ...]] = {}
        self._reach: dict[int, int] = {}
        self._finer: dict[int, int] = {}
        self._own(tree, ())
        for node in ast.walk(tree):
            if id(node) in changed:
                for owner in self._owners[id(node)]:
                    if id(owner) not in self._reach:
                        self._reach[id(owner)] = next(numbers)
                if _has_finer_probe(node):
                    self._finer[id(node)] = next(numbers)
                    next(numbers)

    def marks_of(self, node: ast.AST, mutation: Mutation) -> Marks:
        """Return the marks of *mutation*, which is one of *node*."""
        reached = frozenset(self._reach[id(owner)] for owner in self._owners[id(node)])
        finer = self._finer.get(id(node))
        if finer is not None:
            if mutation.what in _BOUNDARIES and isinstance(node, ast.Compare):
                return Marks(reached, frozenset({finer}))
            if mutation.what.startswith("condition -> "):
                return Marks(reached, frozenset({finer + mutation.what.endswith("False")}))
        return Marks(reached, reached)

    def _own(self, node: ast.AST, owners: tuple[ast.AST, ...]) -> None:
        """Note within which statement each node is; what runs later than it has two owners."""
        for child in ast.iter_child_nodes(node):
            mine = owners
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                mine = (child,)
            elif isinstance(child, ast.Lambda | ast.GeneratorExp):
                mine = (*owners, child)
            self._owners[id(child)] = mine
            self._own(child, mine)

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        mark = self._reach.get(id(node))
        finer = self._finer.get(id(node))
        self.generic_visit(node)
        match node:
            case ast.Lambda() if mark is not None:
                node.body = _after(_call(_REACH, mark), node.body)
            case ast.GeneratorExp() if mark is not None:
                node.elt = _after(_call(_REACH, mark), node.elt)
                for each in node.generators:
                    each.ifs = [_after(_call(_REACH, mark), test) for test in each.ifs]
            case ast.ExceptHandler() if mark is not None:
                node.body.insert(0, _located(ast.Expr(_call(_REACH, mark)), node))
            case ast.Compare() if finer is not None:
                name = _COMPARE[type(node.ops[0])]
                return _located(_call(name, finer, node.left, node.comparators[0]), node)
            case ast.If() | ast.IfExp() | ast.While() if finer is not None:
                node.test = _after(_call(_BEGIN, finer), _call(_CONDITION, finer, node.test))
        if mark is not None and isinstance(node, ast.stmt):
            return [_located(ast.Expr(_call(_REACH, mark)), node), node]
        return node


def _has_finer_probe(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
            return True
        case ast.If() | ast.IfExp() | ast.While():
            return _is_without_effects(ast.walk(node.test))
    return False


def _is_without_effects(nodes: Iterable[ast.AST]) -> bool:
    """Return whether an expression of *nodes* may as well not be evaluated."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _WITHOUT_EFFECTS:
                pass
            case ast.Call() | ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                return False
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return False
    return True


def _call(name: str, mark: int, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(mark), *arguments], [])


def _after(first: ast.expr, value: ast.expr) -> ast.expr:
    """Return an expression that evaluates *first*, and then gives *value*."""
    both = ast.Tuple([first, value], ast.Load())
    return _located(ast.Subscript(both, ast.Constant(1), ast.Load()), value)


def _located(new: _Node, old: ast.AST) -> _Node:
    return ast.copy_location(new, old)
