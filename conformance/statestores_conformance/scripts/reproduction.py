"""A script that failed, as a Python file that needs neither pytest nor Hypothesis.

The file opens what the author's fixture opens, makes the same calls and fails in the same place.
It goes to the directory that ``STATESTORES_REPRODUCTION_DIR`` names, or to the working directory.
Given another opener, ``python FILE MODULE:OPENER``, it makes the calls on that opener's engine.
"""

import ast
import hashlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import statestores.errors
import statestores.spi
from statestores_conformance.scripts.script import Script
from statestores_conformance.scripts.script_helpers import HELPERS
from statestores_conformance.subjects.openers import StoreOnEngine, expression_of, import_root_of

DIRECTORY_VARIABLE = "STATESTORES_REPRODUCTION_DIR"
"""The environment variable that says where the files go."""

_HASH_DIGITS = 12

_HEAD = '''\
"""{title}

Found by the conformance suite of statestores{seed}.
Each call below was made by the test, and the last one went wrong. Run the file with

    python {name} [MODULE:OPENER]

in which MODULE:OPENER names another opener to make the same calls with.
"""

import functools
import pkgutil
import sys
import tempfile
from pathlib import Path
{imports}
'''

_ON_ENGINE = """\
def open_store(path, specification):
    engine = {engine}(path)
    promises = engine.capabilities
    weak = promises.persistent and not promises.durable_commit
    durability = {durability}
    return open_on_engine(engine, specification, durability=durability)
"""

_ANY_DURABILITY = "Durability.PROCESS_CRASH if weak else Durability.POWER_LOSS"


def write_reproduction(
    script: Script, *, title: str, openers: dict[str, Callable[..., Any]], seed: int | None = None
) -> Path:
    """Write *script* down; *openers* are those of its names that open an engine or a store."""
    body = "\n".join(script.lines())
    parts = [_opener_text(name, opener) for name, opener in openers.items()]
    if any(f"{name}(" in body for name in HELPERS):
        parts += map(inspect.getsource, HELPERS.values())
    roots = sorted({root for root in map(_root_of, openers.values()) if root is not None})
    performed = f"    directory = Path(temporary)\n{indent(body, '    ')}\n"
    code = "\n\n".join(
        [
            f"sys.path.extend({roots!r})",
            *parts,
            f"with tempfile.TemporaryDirectory() as temporary:\n{performed}",
        ]
    )
    digest = hashlib.sha256(code.encode()).hexdigest()[:_HASH_DIGITS]
    path = Path(os.environ.get(DIRECTORY_VARIABLE, ".")) / f"statestores-reproduction-{digest}.py"
    head = _HEAD.format(
        title=title,
        seed="" if seed is None else f" with seed {seed}",
        name=path.name,
        imports=_imports_of(code),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}\n{code}", "utf-8")
    return path.absolute()


def _opener_text(name: str, opener: Callable[..., Any]) -> str:
    """Return the statements that define *name* as *opener*; the first argument replaces it."""
    inner = opener.open_engine if isinstance(opener, StoreOnEngine) else opener
    expression = expression_of(inner)
    by_argument = "pkgutil.resolve_name(sys.argv[1])"
    if expression is None:
        expression = f'sys.exit("{inner!r} has no name; say MODULE:OPENER")'.replace("\n", " ")
    target = f"{name}_engine" if isinstance(opener, StoreOnEngine) else name
    chosen = f"{target} = {by_argument} if sys.argv[1:] else {expression}\n"
    if not isinstance(opener, StoreOnEngine):
        return chosen
    durability = _ANY_DURABILITY if opener.durability is None else str(opener.durability)
    definition = _ON_ENGINE.format(engine=target, durability=durability)
    return f"{chosen}\n\n{definition.replace('def open_store(', f'def {name}(')}"


def _root_of(opener: Callable[..., Any]) -> str | None:
    return import_root_of(opener.open_engine if isinstance(opener, StoreOnEngine) else opener)


def _imports_of(code: str) -> str:
    """Return the imports of those names that *code* uses: of the contract, and of its helpers."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    lines = ["from typing import Any", ""] if "Any" in used else [""]
    errors = sorted(used & {name for name in dir(statestores.errors) if name.endswith("Error")})
    if errors:
        lines.append(f"from statestores.errors import {', '.join(errors)}")
    if "open_on_engine" in used:
        lines.append("from statestores.semantics import open_on_engine")
    values = sorted(used & set(statestores.spi.__all__))
    if values:
        lines.append(f"from statestores.spi import {', '.join(values)}")
    return "\n".join(lines)
