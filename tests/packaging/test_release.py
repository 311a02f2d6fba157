"""What a release consists of, as far as that can be told without building one twice."""

import hashlib
import re
import subprocess
import zipfile
from pathlib import Path

import gather_site
import pytest
import readme_hook
import release
import try_release

ROOT = Path(__file__).resolve().parents[2]


def test_links_into_the_repository_become_absolute() -> None:
    """Those of the page itself, of the web, and those in programs stay as they are."""
    page = "[a](docs/a.md#b) [c](#d) [e](https://f.org/g)\n```text\n[h](i)\n```\n[j](k.md)"
    shown = readme_hook.with_absolute_links(page, "https://h.org/o/r/", "v1")

    assert shown == (
        "[a](https://h.org/o/r/blob/v1/docs/a.md#b) [c](#d) [e](https://f.org/g)\n"
        "```text\n[h](i)\n```\n[j](https://h.org/o/r/blob/v1/k.md)"
    )


def test_no_link_of_the_readme_stays_relative() -> None:
    """Whoever reads it in an index has no files beside it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme_hook.with_absolute_links(text, "https://h.org/o/r", "v1")
    links = re.findall(r"\]\(([^)\s]+)\)", shown)

    assert len(links) > 30
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_address_of_the_repository_stands_once() -> None:
    """Packages and site make their links of it: whoever moves the project changes a line."""
    address = gather_site.repository()
    kept = subprocess.run(
        ["git", "-C", ROOT, "grep", "-lF", address],  # noqa: S607  # where there is one
        capture_output=True,
        text=True,
        check=False,
    )
    if kept.returncode > 1:
        pytest.skip("this is no checkout")

    assert kept.stdout.split() == ["pyproject.toml"]
    assert readme_hook.links_of(f"{address}/")["Issues"] == f"{address}/issues"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Write a wheel that says what it requires."""
    path = tmp_path / "statestores-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "statestores-0.1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: statestores\nVersion: 0.1.0\n"
            "Requires-Dist: pyarrow>=16; extra == 'arrow'\n"
            "Requires-Dist: moto[s3]>=5; extra == 'x'\n",
        )
    return path


def test_the_bill_of_materials_has_what_the_wheel_requires(wheel: Path) -> None:
    """With the versions that the tests run with, where there is one."""
    bill = release._sbom([wheel], "0.1.0", 0)
    components = {each["name"]: each for each in bill["components"]}

    assert components.keys() == {"pyarrow", "moto"}
    assert components["pyarrow"]["purl"].startswith("pkg:pypi/pyarrow@")
    assert components["pyarrow"]["licenses"]
    assert bill["metadata"]["component"]["version"] == "0.1.0"


def test_the_index_has_each_file_with_its_checksum(wheel: Path, tmp_path: Path) -> None:
    """Relative, so that it can be moved with its files."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    release._write_index(tmp_path / "simple", [wheel], {wheel.name: digest})
    page = (tmp_path / "simple" / "statestores" / "index.html").read_text()
    (link,) = re.findall(r'href="([^"#]+)#sha256=([0-9a-f]{64})"', page)

    assert (tmp_path / "simple" / "statestores" / link[0]).resolve() == wheel
    assert link[1] == digest
    assert 'href="statestores/"' in (tmp_path / "simple" / "index.html").read_text()


def test_the_version_of_a_release_has_no_dev() -> None:
    """And the changelog has a section to be named after it."""
    found = release._VERSION.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert found is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+", found[1])
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_extra_is_tried() -> None:
    """Each alone; `all` is what the tests run with."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^([a-z-]+) = ", section, re.MULTILINE))

    assert extras - {"all"} == try_release.SMOKE.keys() - {""}


def test_what_the_sdist_installs_is_compared_with_the_wheel(wheel: Path) -> None:
    """By the hashes of both records; what the installer adds, each time otherwise, is left out."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(
            "statestores-0.1.0.dist-info/RECORD",
            "statestores/a.py,sha256=1,1\n"
            "statestores/b.sql,sha256=2,1\n"
            "statestores-0.1.0.dist-info/METADATA,sha256=3,1\n"
            "statestores-0.1.0.dist-info/RECORD,,\n",
        )
    built = try_release._built(wheel)
    ours = ["statestores/a.py,sha256=1,1", "statestores-0.1.0.dist-info/METADATA,sha256=3,1"]
    installers = [
        "../../../bin/statestores,sha256=4,1",
        "statestores/__pycache__/a.cpython-311.pyc,,",
        "statestores-0.1.0.dist-info/INSTALLER,sha256=5,1",
    ]
    whole = try_release.files_of([*ours, "statestores/b.sql,sha256=2,1", *installers])

    assert try_release.differing(built, whole) is None
    assert try_release.differing(built, try_release.files_of([*ours, *installers])) == (
        "the wheel has other files than the sdist: statestores/b.sql"
    )
