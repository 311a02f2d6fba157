"""The page of the first quarter of an hour, done as a stranger does it: to the letter.

`make try-release` does it with an installed wheel, in an environment whose only Java is that of a
package; a test does it in every run, with what is installed for development.
"""

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "first-hour.md"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALLED = re.compile(r"^pip install 'statestores\[(.*)\]'$", re.MULTILINE)
"""A line that installs the package, perhaps with more than it had before."""

_SAVED_AS = re.compile(r"`(\w+\.py)`")

_COMMITTED = 2
"""How many versions the page's program commits before its crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstHour:
    """What the page tells its reader to do."""

    extras: str
    """What is installed first, as it stands between the brackets."""

    more_extras: tuple[str, ...]
    """The same of what is installed later on."""

    files: dict[str, str]
    """The programs, by the names under which they are saved."""

    commands: list[tuple[str, str]]
    """What is typed, and what the page shows of the output: perhaps nothing."""


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print how long *what* takes.

    Beside it stand the processor's time of the processes that it has waited for, which Spark's Java
    is not among, and how many others wanted a processor meanwhile.
    """
    began, processor = time.monotonic(), _processor_seconds()
    yield
    print(
        f"  {time.monotonic() - began:6.1f} s, {_processor_seconds() - processor:5.1f} s of "
        f"processor, load {os.getloadavg()[0]:4.1f}  {what}",
        flush=True,
    )


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_page() -> FirstHour:
    """Return what the page says."""
    text = PAGE.read_text(encoding="utf-8")
    files: dict[str, str] = {}
    commands: list[tuple[str, str]] = []
    installed: list[str] = []
    end = 0
    for block in _BLOCK.finditer(text):
        before, end = text[end : block.start()], block.end()
        if block[1] == "python":
            (name, *_) = _SAVED_AS.findall(before)
            files[name] = block[2]
        elif block[1] == "console":
            for typed in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
                command, _, shown = typed.partition("\n")
                commands.append((command, shown.strip()))
        else:
            for line in _INSTALLED.finditer(block[2]):
                if installed:
                    commands.append((line[0], ""))
                installed.append(line[1])
    commands.append((f"python {[*files][-1]}", ""))  # the page says so in a sentence
    first, *more = installed
    return FirstHour(extras=first, more_extras=tuple(more), files=files, commands=commands)


def follow(page: FirstHour, work: Path, environment: Mapping[str, str], wheel: str) -> str | None:
    """Do in the directory *work* what *page* says; return what went otherwise than it says.

    What it installs later comes from *wheel*, a URL, as what it installs first has come.

    Prints how long each command took, see `told`. The names of programs are looked up in the PATH
    of *environment*.
    """
    for name, program in page.files.items():
        (work / name).write_text(program, encoding="utf-8")
    said = ""
    for command, shown in page.commands:
        typed = _INSTALLED.sub(rf"pip install -q 'statestores[\1] @ {wheel}'", command)
        with told(command):
            done = subprocess.run(  # noqa: S603  # our own page
                ["/bin/bash", "-c", f"exec {typed}"],
                cwd=work,
                env=dict(environment),
                capture_output=True,
                text=True,
                check=False,
            )
        said = done.stdout
        if shown == "Killed":
            if done.returncode != -signal.SIGKILL:
                return f"{command}: was not killed, but ended with {done.returncode}"
        elif done.returncode:
            return f"{command}: {(done.stderr or done.stdout).strip()[-300:]}"
        elif shown and said.strip() != shown:
            return f"{command}: said {said.strip()[-300:]!r}"
    if said.count("|EUR|") != _COMMITTED or "9.99" in said:
        return f"Spark has other rows: {said[-300:]!r}"
    return None


def without_java(place: Path) -> str:
    """Return a directory for PATH with all that /usr/bin and /bin have, but for Java."""
    place.mkdir()
    for name in ("/usr/bin", "/bin"):
        for program in Path(name).iterdir():
            link = place / program.name
            if not program.name.startswith(("java", "python")) and not link.is_symlink():
                link.symlink_to(program)
    return os.fspath(place)
