"""Makes a release: `make release` builds what HEAD is, once and again, into a local index.

    dist/statestores-0.1.0.tar.gz, dist/statestores-0.1.0-py3-none-any.whl
    dist/SHA256SUMS            for `sha256sum --check`
    dist/sbom.cdx.json         what it may bring along (CycloneDX 1.5)
    dist/provenance.json       what it was made of, by what (in-toto statement, not signed)
    dist/simple/               an index for `pip install --index-url file:.../dist/simple`

The version is that of pyproject.toml without its `.dev`. The build happens in a copy of HEAD in
which the version and the heading of the changelog say so; nothing in the checkout is changed.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_VERSION = re.compile(r'^version = "([0-9.]+?)(?:\.dev[0-9]+)?"$', re.MULTILINE)
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*([^;]*)(?:;\s*(.*))?")


class ReleaseError(Exception):
    """What keeps a release from being made."""


def main() -> int:
    """Make the release; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the directory to fill")
    parser.add_argument("--allow-dirty", action="store_true", help="leave out what is not in HEAD")
    wanted = parser.parse_args()
    try:
        _release(wanted.into.resolve(), allow_dirty=wanted.allow_dirty)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _release(into: Path, *, allow_dirty: bool) -> None:
    """Fill *into*.

    Raises:
        ReleaseError: The checkout is not clean, or two builds differ.
    """
    if not allow_dirty and _git("status", "--porcelain"):
        raise ReleaseError("the checkout has changes that HEAD has not; commit them first")
    commit, stamp = _git("rev-parse", "HEAD"), int(_git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory(prefix="statestores-release-") as directory:
        builds = []
        for name in ("once", "again"):
            source = Path(directory) / name
            version = _export(source, datetime.fromtimestamp(stamp, UTC))
            builds.append(_build(source, stamp))
        one, other = builds
        for file in one:
            if _sha256(file.read_bytes()) != _sha256(other[one.index(file)].read_bytes()):
                raise ReleaseError(f"two builds of {file.name} differ")
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        files = [Path(shutil.copy(file, into)) for file in one]
    digests = {file.name: _sha256(file.read_bytes()) for file in files}
    _write_json(into / "sbom.cdx.json", _sbom(files, version, stamp))
    _write_json(into / "provenance.json", _provenance(digests, commit, stamp))
    for name in ("sbom.cdx.json", "provenance.json"):
        digests[name] = _sha256((into / name).read_bytes())
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    (into / "SHA256SUMS").write_text("".join(lines))
    _write_index(into / "simple", files, digests)
    print(f"release: statestores {version} of {commit[:12]} is in {into}")
    print("release: built twice, and equal byte by byte; next: make try-release, then tag and sign")


def _export(into: Path, made: datetime) -> str:
    """Copy HEAD to *into*, as it will be released; return the version."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # not before 3.11.4
        tar.extractall(into)  # noqa: S202  # our own commit
    project = into / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    found = _VERSION.search(text)
    if found is None:
        raise ReleaseError("pyproject.toml has no version such as 0.1.0.dev0")
    version = found[1]
    project.write_text(_VERSION.sub(f'version = "{version}"', text, count=1), encoding="utf-8")
    changes = into / "CHANGELOG.md"
    heading = f"## [{version}] - {made:%Y-%m-%d}"
    text = changes.read_text(encoding="utf-8")
    if "## [Unreleased]" not in text:
        raise ReleaseError("CHANGELOG.md has no section Unreleased")
    changes.write_text(text.replace("## [Unreleased]", heading, 1), encoding="utf-8")
    return version


def _build(source: Path, stamp: int) -> list[Path]:
    """Build sdist and wheel of *source* with the tools that are installed."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(stamp)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return sorted((source / "dist").iterdir())


def _sbom(files: list[Path], version: str, stamp: int) -> dict[str, Any]:
    """Return what the package may bring along, by its metadata and the tested versions."""
    tested = _tested_versions()
    components = [
        {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "version": tested.get(name, "untested"),
            "purl": f"pkg:pypi/{name}" + (f"@{tested[name]}" if name in tested else ""),
            "scope": "optional",
            "licenses": _licences(name),
            "properties": [{"name": "statestores:requirement", "value": each} for each in wanted],
        }
        for name, wanted in sorted(_requirements(files).items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(stamp, UTC).isoformat(),
            "component": {
                "type": "library",
                "bom-ref": "statestores",
                "name": "statestores",
                "version": version,
                "purl": f"pkg:pypi/statestores@{version}",
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": "statestores", "dependsOn": [each["bom-ref"] for each in components]}
        ],
    }


def _requirements(files: list[Path]) -> dict[str, list[str]]:
    """Return what the wheel requires, by the package's name."""
    (wheel,) = (file for file in files if file.suffix == ".whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = HeaderParser().parsestr(archive.read(member).decode())
    found: dict[str, list[str]] = {}
    for requirement in fields.get_all("Requires-Dist", []):
        parts = _REQUIREMENT.fullmatch(requirement)
        if parts is None:
            raise ReleaseError(f"cannot read the requirement {requirement!r}")
        found.setdefault(_plain(parts[1]), []).append(requirement)
    return found


def _tested_versions() -> dict[str, str]:
    """Return the versions that the tests run with."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {_plain(name): version.split(";")[0].strip() for name, _, version in pins}


def _licences(name: str) -> list[Mapping[str, Any]]:
    """Return the licence of *name* as the installed package says it; nothing if it does not."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if "License-Expression" in about:
        return [{"expression": about["License-Expression"]}]
    named = [
        each.rpartition(" :: ")[2]
        for each in about.get_all("Classifier", [])
        if each.startswith("License :: OSI Approved :: ")
    ]
    return [{"license": {"name": each}} for each in named]


def _provenance(digests: Mapping[str, str], commit: str, stamp: int) -> dict[str, Any]:
    """Return what was made of what, by what."""
    tools = {name: metadata.version(name) for name in ("build", "hatchling")}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {"commit": commit, "SOURCE_DATE_EPOCH": stamp},
                "resolvedDependencies": [
                    {"uri": f"pkg:pypi/{name}@{version}"} for name, version in tools.items()
                ],
            },
            "runDetails": {
                "builder": {"id": f"{platform.python_implementation()} {platform.python_version()}"}
            },
        },
    }


def _write_index(into: Path, files: list[Path], digests: Mapping[str, str]) -> None:
    """Write an index that pip reads from a directory (PEP 503)."""
    links = [
        f'<a href="../../{file.name}#sha256={digests[file.name]}" data-requires-python="&gt;=3.11">'
        f"{file.name}</a><br>\n"
        for file in files
    ]
    pages = {into / "statestores": "".join(links), into: '<a href="statestores/">statestores</a>\n'}
    for directory, content in pages.items():
        directory.mkdir(parents=True, exist_ok=True)
        page = f"<!DOCTYPE html>\n<title>statestores</title>\n{content}"
        (directory / "index.html").write_text(page)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(name: str) -> str:
    """Return the *name* of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _git(*arguments: str) -> str:
    finished = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return finished.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
