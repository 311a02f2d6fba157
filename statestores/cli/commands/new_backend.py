"""The command `new-backend`: a package for a backend of one's own, which passes the suite."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from shutil import rmtree
from string import Template
from typing import Annotated

import typer

from statestores.cli.arguments import JsonOption
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.registry import backend_names

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 40

_TAKEN = frozenset({"benchmarks", "conformance", "mutants"})
"""Names of packages that are ours, and no backends."""

_SUFFIX = ".template"
"""So that no tool takes the files of the skeleton for modules of ours."""

_PACKAGE_FOLDER = "package"
"""The folder of the skeleton that gets the name of the new package."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What the new backend is called, from its registered name."""

    backend: str

    @property
    def distribution(self) -> str:
        """What pip installs, and the directory."""
        return f"statestores-{self.backend}"

    @property
    def package(self) -> str:
        """What Python imports."""
        return self.distribution.replace("-", "_")

    @property
    def title(self) -> str:
        """How its classes begin."""
        return "".join(part.capitalize() for part in self.backend.split("-"))

    def substitutions(self) -> dict[str, str]:
        """Return what stands for what in the skeleton."""
        return {
            "backend": self.backend,
            "distribution": self.distribution,
            "package": self.package,
            "title": self.title,
            "engine": f"{self.title}Engine",
            "options": f"{self.title}Options",
            "reads": f"{self.title}Reads",
            "snapshot": f"{self.title}Snapshot",
            "version": version("statestores"),
        }


def new_backend(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="What users will write as backend=...: lower-case letters, digits and hyphens.",
        ),
    ],
    *,
    directory: Annotated[
        Path,
        typer.Option("--directory", metavar="DIR", help="Where to make the package's directory."),
    ] = Path(),
    json: JsonOption = False,
) -> None:
    """WRITES the package statestores-NAME: an engine to build on, and the suite that proves it.

    The engine keeps its pairs in memory and passes the suite as it is. Nothing that exists is
    overwritten.

    Example: statestores new-backend redis --directory ~/src
    """
    names = _Names(_checked(name))
    target = directory / names.distribution
    written = _write(target, names)
    output = Output(json=json)
    if json:
        output.document(
            {
                "path": str(target),
                "backend": names.backend,
                "package": names.package,
                "files": written,
            }
        )
        return
    output.heading(str(target))
    for file in written:
        output.line(f"  {file}")
    output.line("")
    output.heading("next")
    output.line(f"  cd {target}")
    output.line("  pip install -e '.[test]'")
    output.line("  pytest")
    output.line(f"  statestores conformance {names.backend}")
    output.line(f"then read README.md there, and replace src/{names.package}/database.py")


def _checked(name: str) -> str:
    """Return *name*, if a backend, a distribution and a package can be called so."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"a backend cannot be called {name!r}; expected at most {_LONGEST_NAME} lower-case "
            "letters, digits and single hyphens, a letter first, such as 'redis' or 'my-redis'"
        )
    # The package of another name could be this one's: `my-db` and `my_db` are one.
    known = {known.replace("_", "-").lower() for known in backend_names()}
    if name in known | _TAKEN:
        raise InvalidArgumentError(
            f"{name!r} is taken already; known backends: {', '.join(sorted(known))}"
        )
    return name


def _write(target: Path, names: _Names) -> list[str]:
    """Write the skeleton into the new directory *target*; return its files."""
    try:
        target.mkdir(parents=True)
    except FileExistsError as error:
        raise InvalidArgumentError(
            f"{str(target)!r} exists, and nothing is overwritten; choose another --directory, or "
            "move it away"
        ) from error
    written = []
    try:
        for path, content in _rendered(names.substitutions()):
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(content)
            written.append(path)
    except BaseException:
        # It was made just now, and half a package helps nobody.
        rmtree(target)
        raise
    return sorted(written)


def _rendered(substitutions: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Give the path and the content of each file of the new package."""
    for path, template in _templates(files("statestores.cli") / "skeleton", ""):
        folders = path.split("/")
        folders = [
            substitutions["package"] if folder == _PACKAGE_FOLDER else folder for folder in folders
        ]
        content = Template(template.read_text("utf-8")).substitute(substitutions)
        yield "/".join(folders).removesuffix(_SUFFIX), content


def _templates(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    """Give the path, below the skeleton, of each of its files."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _templates(entry, f"{path}/")
        elif path.endswith(_SUFFIX):
            yield path, entry
