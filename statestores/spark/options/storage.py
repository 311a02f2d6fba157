"""The options that say how an object store is reached, apart by whether Spark may show them.

Spark keeps options in plans, which it prints and logs, and shows those whose *names* look harmless.
So what could be a credential is taken only under a name that Spark redacts by itself.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from statestores.errors import InvalidOptionError

STORAGE_OPTIONS: Final = "storageOptions"
STORAGE_SECRETS: Final = "storageSecrets"  # Spark's `spark.redaction.regex` has "secret"

EXPECTED: Final = 'a JSON object, such as {"region": "us-east-1"}'
"""What both options are."""

_SECRET = re.compile(r"secret|token|key|sas|password|credential|header|proxy", re.IGNORECASE)


def read_storage(text: str) -> Mapping[str, object]:
    """Read a JSON object of options of the object store."""
    try:
        content: object = json.loads(text)
    except RecursionError as error:
        raise ValueError from error
    if not isinstance(content, dict):
        raise TypeError
    return content


def merged_storage(
    options: Mapping[str, Any] | None, secrets: Mapping[str, Any] | None
) -> dict[str, object] | None:
    """Return both together; ``None`` if neither is given.

    Raises:
        InvalidOptionError: What could be a credential is where Spark shows it, or something is in
            both.
    """
    if options is None and secrets is None:
        return None
    merged = dict(options or {})
    for name in _names_in(merged):
        if _SECRET.search(name):
            raise InvalidOptionError(
                f"the option {STORAGE_OPTIONS!r} has {name!r}, which may be a credential, and "
                f"Spark shows it in plans and logs; give it in {STORAGE_SECRETS!r}"
            )
    for name, value in (secrets or {}).items():
        present = merged.get(name)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[name] = {**present, **value}
        elif name in merged:
            raise InvalidOptionError(
                f"the options {STORAGE_OPTIONS!r} and {STORAGE_SECRETS!r} both have {name!r}; "
                "leave one out"
            )
        else:
            merged[name] = value
    return merged


def _names_in(options: Mapping[str, Any]) -> list[str]:
    """Return the names of *options*, and of those that are mappings the names inside."""
    inner = [name for each in options.values() if isinstance(each, Mapping) for name in each]
    return [*options, *inner]
