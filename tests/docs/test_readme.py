"""The README's first screen runs, and prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_each_example_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """A newcomer copies it into a file and runs it."""
    programs = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

    assert len(programs) == len(shown) == 2
    for program, lines in zip(programs, shown, strict=True):
        finished = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, lines, "")


def test_every_link_leads_to_a_file() -> None:
    """Links to files of the repository exist."""
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
