"""The right to write to a store, waited for while somebody else has it."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from statestores.errors import StoreLockedError
from statestores.spark.write_plan import WritePlan
from statestores.state_root import StateRoot

if TYPE_CHECKING:
    from statestores.staged_write import Publisher

_FIRST_PAUSE_MS: Final = 20
_LONGEST_PAUSE_MS: Final = 1_000

_Taken = TypeVar("_Taken")


@contextmanager
def publishing_when_free(plan: WritePlan) -> "Iterator[Publisher]":
    """Give the publisher of the store of *plan*, which is made if need be.

    Waits while another publishes, an owner has a partition open, or somebody adds a store.

    Raises:
        StoreLockedError: That was so for as long as the option ``commitTimeout`` says.
        StoreMismatchError, StoreCorruptedError, StorageError: The store is another one, or cannot
            be opened.
    """
    from statestores.staged_write import publishing  # noqa: PLC0415  # needs pyarrow

    name = plan.specification.name
    with ExitStack() as held:

        def take() -> "Publisher":
            root = StateRoot.create(plan.root)
            root.add_store(plan.specification, partitions=plan.partitions)
            return held.enter_context(publishing(root, name))

        yield when_unlocked(take, plan.commit_timeout_ms, f"the write to {name!r}")


def when_unlocked(take: Callable[[], _Taken], timeout_ms: int, who: str) -> _Taken:
    """Return what *take* returns, once it is not refused by a lock; nothing is held in between.

    Raises:
        StoreLockedError: It was refused until *timeout_ms* had passed; 0 tries once.
    """
    pause_ms = _FIRST_PAUSE_MS
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return take()
        except StoreLockedError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreLockedError(
                    f"{who} has waited for {timeout_ms:,} ms, as the option 'commitTimeout' says, "
                    f"and gives up: {error}"
                ) from error
            # Several who wait should not all come back at one moment.
            time.sleep(min(left, random.uniform(0.5, 1) * pause_ms / 1000))  # noqa: S311  # no secret
            pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)
