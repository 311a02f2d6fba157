"""The modules in `kit`, which programs started by the tests import as well."""

import sys
from pathlib import Path

KIT = str(Path(__file__).parent / "kit")

if KIT not in sys.path:
    sys.path.insert(0, KIT)
