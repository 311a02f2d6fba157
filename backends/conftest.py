"""The doctests of a backend whose driver is missing are not collected.

pytest's own ``--doctest-ignore-import-errors`` also passes over *tests* that cannot be imported:
the run is green although nothing was tested.
"""

from importlib.util import find_spec

_DRIVERS = {
    "statestores_rocksdb": ("rocksdict",),
    "statestores_leveldb": ("plyvel", "plyvel_next"),
    "statestores_sqlite": ("sqlalchemy",),
}

collect_ignore = [
    package for package, drivers in _DRIVERS.items() if not any(map(find_spec, drivers))
]
