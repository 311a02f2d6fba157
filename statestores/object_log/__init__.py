"""The changelogs of a store in an object store: no rename, no append, no lock and no clock.

Read `names`, `documents` and `checkpoint` for what is stored; then `owners`, `catching_up` and
`folding`, the protocol, which has no I/O of its own; then `changelog`, which drives it. The rules
and why they hold: ``spec/23-object-stores.md``.
"""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.object_log.changelog import ObjectChangelog
from statestores.object_log.compaction import ObjectCompactionReport
from statestores.object_log.log import ObjectLog
from statestores.object_log.reader import ObjectChangelogReader

__all__ = ["ObjectChangelog", "ObjectChangelogReader", "ObjectCompactionReport", "ObjectLog"]
