"""The page about memory: its example runs, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    """A reader copies it into a file and runs it."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, shown, "")


def test_the_test_that_the_page_cites_is_there() -> None:
    """It is what the numbers come from."""
    (cited,) = re.findall(r"`(tests/[^`]+)`", PAGE)

    assert (ROOT / cited).exists()
