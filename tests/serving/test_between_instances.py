"""Credentials of instances: by them they ask each other, and nobody else asks by them."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import plain_http
import pytest
from served_shop import COUNTS, PARTITIONS, WORDS, Shop

from statestores.errors import AccessDeniedError, InvalidArgumentError
from statestores.query import RunningStore
from statestores.query.metadata import LeaseMembership
from statestores.serving import Access, ApplicationServer, FlightStores, Serving
from statestores.serving.access import access_of_tokens
from statestores.spi.metrics.metric import Metrics

PEOPLE, OLD, NEW = "a-token-of-people-0", "an-old-token-of-ours", "the-new-token-of-ours"


class HalfARunner:
    """Runs one partition of the counts."""

    def __init__(self, shop: Shop, number: int) -> None:
        self._active = {number: shop.manager.local_stores("counts")[number]}

    def running_stores(self) -> Mapping[str, RunningStore]:
        """Return what runs."""
        stores = RunningStore(specification=COUNTS, partitions=PARTITIONS, active=self._active)
        return {"counts": stores}

    def not_begun(self) -> str | None:
        """Return nothing."""
        return None

    def metrics(self) -> Metrics:
        """Return nothing."""
        return ()


def serving(*tokens: str) -> Serving:
    """Return how an instance serves whose own token is the first of these."""
    between = Access(token=tokens[0], other_tokens=tokens[1:])
    return Serving(access=Access(token=PEOPLE), between_instances=between, timeout_s=0.2)


@pytest.mark.spec("SRV-26", "SRV-22", "SRV-17")
def test_instances_have_a_token_of_their_own(shop: Shop, tmp_path: Path) -> None:
    """Two instances answer for all keys while the token is changed; nobody asks by another's."""
    members = LeaseMembership(tmp_path)
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(
                ApplicationServer(HalfARunner(shop, number), members, f"{number}", how)
            )
            for number, how in enumerate((serving(OLD, NEW), serving(NEW, OLD)))
        )
        people, ours = ({"authorization": f"Bearer {token}"} for token in (PEOPLE, NEW))
        for each in (one, two):
            each.queries.watch.look()
            assert each.queries.store(COUNTS).get_many(WORDS) == list(range(20))
            address = f"{each.url}/v1/stores/counts/rows"
            rows = plain_http.get(address, headers=people).json()["rows"]
            assert len(rows) == len(WORDS)
            assert plain_http.get(address, headers=ours).status_code == 401
        for token, is_let_in in ((OLD, True), (NEW, True), (PEOPLE, False), (None, False)):
            remote = stack.enter_context(FlightStores(token=token))
            for each in (one, two):
                try:
                    assert remote.instance(each.flight).instance in "01"
                except AccessDeniedError:
                    assert not is_let_in
                else:
                    assert is_let_in


@pytest.mark.spec("SRV-26", "SRV-17")
def test_tokens_are_lines_of_a_file() -> None:
    """The first is sent, and all are let in; a file without one does not open everything."""
    access = access_of_tokens(f"\n{NEW}\r\n  {OLD}\n\n")
    assert access == Access(token=NEW, other_tokens=(OLD,))
    assert OLD not in repr(access)
    for let_in in (NEW, OLD):
        access.check_header(f"Bearer {let_in}")
    for wrong in (None, "", "Bearer ", f"Bearer {PEOPLE}", f"Bearer {NEW} {OLD}"):
        with pytest.raises(AccessDeniedError):
            access.check_header(wrong)
    nothing: list[Any] = ["", "\n \n", "short", f"{NEW}\nshort"]
    for tokens in nothing:
        with pytest.raises(InvalidArgumentError):
            access_of_tokens(tokens)
    with pytest.raises(InvalidArgumentError, match="a token as well"):
        Access(other_tokens=(OLD,))


@pytest.mark.spec("SRV-26", "SRV-17")
def test_both_credentials_are_judged_by_the_address() -> None:
    """An address that others reach wants both; and instances know each other's authority."""
    pem: dict[str, Any] = {"certificate": "c.pem", "private_key": "k.pem"}
    good = Access(token=PEOPLE, **pem)
    for lacking in (Access(), Access(token=NEW), Access(**pem)):
        with pytest.raises(InvalidArgumentError, match="other machines"):
            Serving(address="10.1.2.3", access=good, between_instances=lacking, authority="ca")
    with pytest.raises(InvalidArgumentError, match="authority"):
        Serving(access=Access(token=PEOPLE), between_instances=good)
    Serving(access=good, between_instances=Access(token=NEW))
