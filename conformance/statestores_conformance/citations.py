"""The requirements that a test proves: those its ``spec`` marks cite, for its kind of store.

A relation is one test for several kinds of store, and cites the chapters of all of them. Run on a
window store it proves nothing about sessions, so a report must not say that it did.
"""

import pytest

KIND_CHAPTERS = frozenset({"KVS", "VRS", "WIN", "SES", "TKV", "TTL"})
"""The chapters that are about one kind of store; all others are about every kind."""


def cited_by(item: pytest.Item) -> set[str]:
    """Return the numbers of the requirements that the test *item* proves, such as ``ENG-2``.

    A class around the test narrows them: its ``kind_chapters``, if it has that attribute, are the
    only chapters of kinds that count.
    """
    own = KIND_CHAPTERS
    for node in item.listchain():
        own = getattr(getattr(node, "obj", None), "kind_chapters", own)
    others = KIND_CHAPTERS - own
    return {
        name
        for mark in item.iter_markers("spec")
        for name in mark.args
        if name.partition("-")[0] not in others
    }
