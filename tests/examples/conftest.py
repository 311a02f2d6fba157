"""The examples are scripts: their modules are found where the scripts are."""

import sys
from pathlib import Path

NYCFLIGHTS = Path(__file__).resolve().parents[2] / "examples" / "nycflights"

sys.path.append(str(NYCFLIGHTS))
