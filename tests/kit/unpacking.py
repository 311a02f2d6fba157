"""Archives of states that other programs have left, which tests unpack."""

import tarfile
from pathlib import Path


def unpack(archive: Path, into: Path) -> None:
    """Unpack the tar file *archive* into the directory *into*, which is made.

    Python 3.11.0 to 3.11.3 have no filters, and later ones warn of archives without.
    """
    with tarfile.open(archive) as packed:
        data_filter = getattr(tarfile, "data_filter", None)
        if data_filter is not None:
            packed.extraction_filter = data_filter
        packed.extractall(into)  # noqa: S202  # our own archives
