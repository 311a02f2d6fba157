"""``statestores.json`` as an object: created once, replaced by whoever knows its tag (OBJ-17).

So is what a topology notes of itself.
"""

import json
from collections.abc import Mapping
from typing import Any

from statestores.errors import StorageError, StoreNotFoundError
from statestores.files.durable_json import ROOT_FILE
from statestores.files.strict_json import Fields, parse_object
from statestores.storage import Found, ObjectStorage, Outcome

_ATTEMPTS = 8


class RootObject:
    """The object by which a state root in an object store is recognised, or another like it."""

    def __init__(self, storage: ObjectStorage, name: str = ROOT_FILE) -> None:
        """Look at *name* below the root of *storage*."""
        self._storage = storage
        self._name = name

    @property
    def shown(self) -> str:
        """The object, as messages show it."""
        return repr(f"{self._storage.url}/{self._name}")

    def create(self, content: Mapping[str, Any]) -> None:
        """Make it of *content*, if there is none.

        Raises:
            StorageError: The object store does not answer.
        """
        for _ in range(_ATTEMPTS):
            if self._storage.create(self._name, _pack(content)) is Outcome.DONE:
                return
            if self._storage.read(self._name) is not None:
                return
        raise self._unanswered()

    def read(self) -> tuple[Fields, str]:
        """Return its fields, and its tag.

        Raises:
            StoreNotFoundError: There is none.
            StoreCorruptedError: It is no JSON of ours.
            StorageError: It cannot be read.
        """
        found = self._storage.read(self._name)
        if not isinstance(found, Found):
            raise StoreNotFoundError(
                f"there is no state root at {self._storage.url!r}: it has no {self._name}; check "
                "the URL, or make one with StateRoot.create()"
            )
        return Fields(parse_object(found.data, self.shown), self.shown), found.tag

    def replace(self, content: Mapping[str, Any], tag: str) -> bool:
        """Have it be *content*, unless its tag is another than *tag* by now; return which.

        It is enough that the content is there: who put it does not matter.

        Raises:
            StorageError: The object store does not answer.
        """
        data = _pack(content)
        for _ in range(_ATTEMPTS):
            if self._storage.replace(self._name, data, tag) is Outcome.DONE:
                return True
            found = self._storage.read(self._name)
            if isinstance(found, Found) and found.data == data:
                return True
            if not isinstance(found, Found) or found.tag != tag:
                return False
        raise self._unanswered()

    def _unanswered(self) -> StorageError:
        return StorageError(
            f"cannot write {self.shown}: {self._storage.last_failure() or 'no answer'}; check the "
            "network, the credentials and their rights, and try again"
        )


def _pack(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode()
