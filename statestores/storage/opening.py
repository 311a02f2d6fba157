"""From a URL and options to an object store."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from statestores.errors import InvalidOptionError, InvalidTypeError, MissingDriverError
from statestores.storage.contract import ObjectStorage
from statestores.storage.url import StorageUrl

_NESTED = ("client_options", "retry_config")


def open_storage(
    url: str | PathLike[str], options: Mapping[str, object] | None = None
) -> ObjectStorage:
    """Return the object store at *url*, without a request to it.

    *options* are those of obstore's ``S3Store``, ``GCSStore`` or ``AzureStore``: credentials and
    places by name (``endpoint``, ``region``, ``access_key_id``), and ``client_options`` and
    ``retry_config`` with mappings of their own. What they lack comes from the environment. No
    message and no representation shows any of them.

    Raises:
        InvalidArgumentError: The URL is none of an object store.
        InvalidTypeError, InvalidOptionError: An option is unknown, or cannot be one.
        MissingDriverError: The package ``obstore`` is not installed.
    """
    place = StorageUrl.parse(url)
    flat, nested = _split(options)
    try:
        from statestores.storage.obstore_driver import ObstoreStorage  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise MissingDriverError(
            "a state root in an object store needs the package 'obstore', which is not installed; "
            "try: pip install 'statestores[object-store]'",
            name="obstore",
        ) from error
    return ObstoreStorage.open(place, flat, nested)


def _split(
    options: Mapping[str, object] | None,
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the options of the store, and those that are mappings."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidTypeError(
            f"storage_options must be a mapping of names to values, got a {type(options).__name__}"
        )
    flat: dict[str, str] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in (options or {}).items():
        if not isinstance(name, str):
            raise InvalidTypeError("storage_options are named by text")
        if name in _NESTED and isinstance(value, Mapping):
            nested[name] = dict(value)
        elif name not in _NESTED and isinstance(value, (str, bool, int)):
            flat[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise InvalidOptionError(
                f"the storage option {name!r} must be "
                f"{'a mapping' if name in _NESTED else 'text, a number, or true or false'}, got a "
                f"{type(value).__name__}"
            )
    return flat, nested
