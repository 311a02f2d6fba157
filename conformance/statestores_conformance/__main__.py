"""``python -m statestores_conformance`` is ``statestores conformance``."""

import sys

from statestores_conformance.command import main

sys.exit(main())
