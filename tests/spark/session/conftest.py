"""What the tests of sessions import, and daemons that they start: the modules in `kit`."""

import sys
from pathlib import Path

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.append(KIT)
