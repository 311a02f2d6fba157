"""A process that ends, without one that does: what a failpoint calls."""


class Died(BaseException):
    """The process ends here, as far as a runner can tell."""


def die() -> None:
    """End it."""
    raise Died
