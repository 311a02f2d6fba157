"""What a user has told a reader or writer of Spark, remembered on it: name, path, mode.

Spark's own classes keep that where Python cannot read it. The methods that tell are wrapped here;
`name_routing` puts them in place.
"""

from collections.abc import Callable
from typing import Any, Final

from statestores.spark.options.storage import STORAGE_OPTIONS, STORAGE_SECRETS

_STATE: Final = "_statestores_route"  # what a builder was told, kept on the builder
_OF_STORAGE: Final = frozenset({STORAGE_OPTIONS.lower(), STORAGE_SECRETS.lower()})
_REMEMBERED: Final = frozenset({"path", "readchangefeed", *_OF_STORAGE})

Method = Callable[..., Any]  # a method of a class of pyspark, whose signatures differ by release


def remembering_format(original: Method) -> Method:
    """Wrap the method that is told what is read or written."""

    def format(builder: Any, source: Any) -> Any:  # noqa: A001  # Spark's name
        what_was_told(builder)["format"] = source.lower() if isinstance(source, str) else source
        return original(builder, source)

    return format


def remembering_option(original: Method) -> Method:
    """Wrap the method that is told one option."""

    def option(builder: Any, key: Any, value: Any) -> Any:
        if isinstance(key, str) and key.lower() in _REMEMBERED:
            what_was_told(builder)[key.lower()] = value
        return original(builder, key, value)

    return option


def remembering_options(original: Method) -> Method:
    """Wrap the method that is told several options."""

    def options(builder: Any, **values: Any) -> Any:
        for key, value in values.items():
            if key.lower() in _REMEMBERED and value is not None:
                what_was_told(builder)[key.lower()] = value
        return original(builder, **values)

    return options


def remembering_mode(original: Method) -> Method:
    """Wrap the method that is told what becomes of what is there."""

    def mode(builder: Any, save_mode: Any) -> Any:
        if isinstance(save_mode, str):
            what_was_told(builder)["mode"] = save_mode.lower()
        return original(builder, save_mode)

    return mode


def what_was_told(builder: Any) -> dict[str, Any]:
    """Return what *builder* was told so far, to be changed."""
    told: dict[str, Any] = builder.__dict__.setdefault(_STATE, {})
    return told


def path_of(told: dict[str, Any], path: Any, options: dict[str, Any]) -> Any:
    """Return the path that Spark will use: the argument, else the option."""
    if path is not None:
        return path
    given = [value for key, value in options.items() if key.lower() == "path"]
    return given[-1] if given else told.get("path")


def names_storage(told: dict[str, Any], options: dict[str, Any]) -> bool:
    """Return whether an option says how an object store is reached, which only ours has."""
    return not _OF_STORAGE.isdisjoint(told) or not _OF_STORAGE.isdisjoint(map(str.lower, options))
