"""The program that brings forth the processes which live until a failpoint kills them."""

from pathlib import Path

from lives import logged_life, oracle, staged_life

from statestores_conformance.faults.crash_child import die_at, serve


def live(
    *, life: str, root: str, oracle_path: str, failpoint: str, at: int, backend: str, first: int
) -> None:
    """Live one *life*; reaching *failpoint* for the *at*-th time ends it."""
    die_at(failpoint, at)
    say = oracle(Path(oracle_path))
    if life == "logged":
        logged_life(Path(root), say, backend=backend)
    else:
        staged_life(Path(root), say, first=first)


if __name__ == "__main__":
    # Arrow imports pandas when it makes its first array: half a second in each life.
    serve(live, preload=["pandas", "pyarrow.pandas_compat"])
