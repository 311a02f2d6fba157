"""The README as packages carry it: links to files of the repository become absolute.

The repository keeps them relative, so that they lead to the files of the same checkout. A page that
shows the metadata has no files beside it. Hatchling runs this for each build, see pyproject.toml.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)([^)\s]+)(?=\))")
"""The target of a Markdown link that is neither absolute nor within the page."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def with_absolute_links(text: str, source: str, revision: str) -> str:
    """Return the Markdown *text* with links into the repository *source* at *revision*."""
    base = f"{source.rstrip('/')}/blob/{revision}/"
    parts: list[str] = []
    at = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(rf"{base}\1", text[at : fence.start()]), fence[0]]
        at = fence.end()
    parts.append(_LINK.sub(rf"{base}\1", text[at:]))
    return "".join(parts)


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the README into *metadata*; links of a release lead to its tag."""
        version = str(metadata["version"])
        revision = "main" if "dev" in version else f"v{version}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, metadata["urls"]["Source"], revision),
        }
