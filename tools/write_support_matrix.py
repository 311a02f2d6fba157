"""Write ``docs/backends.md`` from the reports in ``docs/conformance``."""

import sys
from pathlib import Path

from statestores_conformance.report import from_json
from statestores_conformance.report.matrix import to_matrix

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "backends.md"
BACKENDS = ("memory", "rocksdb", "leveldb", "sqlite")


def content() -> str:
    """Return what the page should say."""
    folder = DOCS / "conformance"
    return to_matrix([from_json((folder / f"{name}.json").read_text("utf-8")) for name in BACKENDS])


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text("utf-8") != content():
            sys.exit("docs/backends.md is not what the reports say: make reports")
    else:
        PAGE.write_text(content(), "utf-8")
