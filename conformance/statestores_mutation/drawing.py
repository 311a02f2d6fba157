"""Which mutants are made: all of them, or some that are drawn by lot.

A lot is a hash of the seed and of the mutant's key, and the lowest ones are drawn. So whether a
mutant is drawn hangs little on what others there are: when code was edited, the same seed gives
much the same sample, and what is not new has its verdict already.
"""

from collections.abc import Sequence
from hashlib import sha256

from statestores_mutation.mutations import Mutation, mutations_of
from statestores_mutation.sources import Sources


def mutations_in(sources: Sources, only: str) -> list[Mutation]:
    """Return the mutants of *sources* whose keys contain *only*, by modules and lines."""
    return [
        mutation
        for module in sources.modules
        for mutation in mutations_of(module, sources.text(module))
        if only in mutation.key
    ]


def groups_of(mutations: Sequence[Mutation], names: Sequence[str]) -> list[list[Mutation]]:
    """Return those of *mutations* that are in each module or package of *names*.

    What is in two of them is of the first. Requires: each is in one.
    """
    groups: dict[str, list[Mutation]] = {name: [] for name in names}
    for mutation in mutations:
        within = f"{mutation.module}."
        groups[next(name for name in names if within.startswith(f"{name}."))].append(mutation)
    return list(groups.values())


def drawn(mutations: Sequence[Mutation], sample: int, seed: int) -> list[Mutation]:
    """Return *sample* of *mutations*, in their order; all of them if it is 0."""
    lots = {
        number: sha256(f"{seed} {mutation.key}".encode()).digest()
        for number, mutation in enumerate(mutations)
    }
    numbers = sorted(lots, key=lots.__getitem__)[: sample or None]
    return [mutations[number] for number in sorted(numbers)]
