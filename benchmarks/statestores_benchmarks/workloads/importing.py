"""What an import costs, in separate processes, and which other packages it brings in."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path

from statestores_benchmarks.cases import Case, Figure, Group, Metric, Outcome, Scale, Target, Timed

_MILLISECONDS = "ms to import"
_STRANGERS = "third-party packages loaded"
_OURS = "import statestores"

_PROGRAM = """
import sys, time, json
before = set(sys.modules)
began = time.perf_counter()
import {module}
elapsed = time.perf_counter() - began
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps([elapsed * 1000, sorted(loaded)]))
"""


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the import of ours and of others."""
    modules = {
        _OURS: "statestores",
        "import rocksdict": "rocksdict",
        "import pyarrow": "pyarrow",
        "import quixstreams": "quixstreams",
        "import faust": "faust",
        "import polars": "polars",
    }
    yield Group(
        name="import",
        title="Import in a new process, files in the page cache",
        operations=1,
        metric=Metric.WALL,
        durability=None,
        cases=[
            Case("python, without any import of ours", partial(_importing, "json")),
            *(
                Case(name, partial(_importing, module), needs=_needs(module))
                for name, module in modules.items()
            ),
        ],
        targets=[
            Target(
                case=_OURS,
                figure=Figure.QUANTITY,
                quantity=_MILLISECONDS,
                at_most=60,
                row="import statestores",
            ),
            Target(
                case=_OURS,
                figure=Figure.QUANTITY,
                quantity=_STRANGERS,
                at_most=0,
                row="import statestores",
            ),
        ],
    )


def _needs(module: str) -> tuple[str, ...]:
    return () if module == "statestores" else (module,)


@contextmanager
def _importing(module: str, path: Path) -> Iterator[Timed]:
    installed = packages_distributions()

    def timed() -> Outcome:
        ran = subprocess.run(  # noqa: S603  # this interpreter, a program of our own
            [sys.executable, "-W", "ignore", "-c", _PROGRAM.format(module=module)],
            capture_output=True,
            text=True,
            check=True,
            cwd=path,
        )
        milliseconds, loaded = json.loads(ran.stdout.splitlines()[-1])
        strangers = [
            name
            for name in loaded
            if name in installed and name != module and "statestores" not in installed[name]
        ]
        return Outcome(quantities={_MILLISECONDS: milliseconds, _STRANGERS: len(strangers)})

    yield timed
