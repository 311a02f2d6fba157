"""The right to write to a store, waited for while somebody else has it."""

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from statestores.files.lock_waiting import when_unlocked
from statestores.spark.source.write_plan import WritePlan
from statestores.state_root import StateRoot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statestores.staging.staged_write import Publisher

_OPTION: Final = "the option 'commitTimeout'"


@contextmanager
def publishing_when_free(plan: WritePlan) -> "Iterator[Publisher]":
    """Give the publisher of the store of *plan*, which is made if need be.

    Waits while another publishes, an owner has a partition open, or somebody adds a store.

    Raises:
        StoreLockedError: That was so for as long as the option ``commitTimeout`` says.
        StoreMismatchError, StoreCorruptedError, StorageError: The store is another one, or cannot
            be opened.
    """
    from statestores.staging.staged_write import publishing  # noqa: PLC0415  # needs pyarrow

    name = plan.specification.name
    with ExitStack() as held:

        def take() -> "Publisher":
            root = StateRoot.create(plan.root)
            root.add_store(plan.specification, partitions=plan.partitions)
            return held.enter_context(publishing(root, name))

        yield when_unlocked(take, plan.commit_timeout_ms, f"the write to {name!r}", _OPTION)
