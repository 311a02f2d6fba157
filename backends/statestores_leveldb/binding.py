"""The module that binds LevelDB: plyvel, or its fork plyvel-next.

plyvel has wheels up to Python 3.12, plyvel-next from 3.12 on, under a name of its own and with the
same calls; the extra ``leveldb`` brings the one that has a wheel (decision 100). Where both are
installed it is plyvel.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

NAME = "plyvel" if find_spec("plyvel") is not None else "plyvel_next"
"""The name of the module that is used."""

plyvel: Any = import_module(NAME)
"""Neither of the two has types."""
