"""What keeps whole objects under names: the object store of a cloud, or one in memory.

Read `contract` first. A name is created once or replaced by whoever knows its tag; everything that
stands on this (`statestores.object_log`) decides by those two verbs alone, and by reading.
"""

from statestores.storage.contract import (
    Found,
    Listed,
    ObjectStorage,
    Outcome,
    Unchanged,
)
from statestores.storage.opening import open_storage
from statestores.storage.url import StorageUrl, is_storage_url

__all__ = [
    "Found",
    "Listed",
    "ObjectStorage",
    "Outcome",
    "StorageUrl",
    "Unchanged",
    "is_storage_url",
    "open_storage",
]
