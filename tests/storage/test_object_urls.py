"""URLs and options of object stores, and of those that are none no secret is told."""

import os
from typing import Any

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    MissingDriverError,
)
from statestores.storage import StorageUrl, open_storage
from statestores_conformance.many_cases import for_each


@pytest.mark.spec("OBJ-21")
@for_each(
    "url",
    [
        "s3://key:secret@bucket/root",
        "s3://bucket/root?sig=secret",
        "s3:///root",
        "s3://bucket/../secret",
        "gs://bucket/a b/secret",
        "http://bucket/secret",
        "file:///tmp/secret",
    ],
)
def test_urls_that_are_none(url: str) -> None:
    """What may be a secret is not repeated."""
    with pytest.raises(InvalidArgumentError) as refused:
        StorageUrl.parse(url)
    assert "secret" not in str(refused.value)


@pytest.mark.spec("OBJ-21")
def test_options_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused by name, and their values are not repeated."""
    cases: list[tuple[Any, type[Exception]]] = [
        ({"bogus": "secret"}, InvalidOptionError),
        ({"client_options": "secret"}, InvalidOptionError),
        ({"client_options": {"bogus": "secret"}}, InvalidOptionError),
        ({"access_key_id": ["secret"]}, InvalidOptionError),
        ({1: "secret"}, InvalidTypeError),
        ("secret", InvalidTypeError),
    ]
    for options, error in cases:
        with pytest.raises(error) as refused:
            open_storage("s3://bucket/root", options)
        assert "secret" not in str(refused.value)
        assert refused.value.__cause__ is None
    storage = open_storage(
        "s3://bucket/root", {"access_key_id": "id", "secret_access_key": "secret"}
    )
    assert repr(storage) == "ObstoreStorage('s3://bucket/root')"
    for url, options in (
        ("gs://bucket/root", {"skip_signature": True}),
        ("az://container/root", {"account_name": "me", "skip_signature": True}),
    ):
        assert repr(open_storage(url, options)) == f"ObstoreStorage({url!r})"
    for text in ("s3://bucket/root", "s3:/bucket/root/", "S3://bucket/root"):
        assert str(StorageUrl.parse(text)) == "s3://bucket/root"
    monkeypatch.setitem(os.sys.modules, "obstore", None)  # type: ignore[attr-defined]
    monkeypatch.delitem(os.sys.modules, "statestores.storage.obstore_driver")  # type: ignore[attr-defined]
    with pytest.raises(MissingDriverError, match=r"statestores\[object-store\]"):
        open_storage("s3://bucket/root")
