"""What packages say of the repository: the project's links, and the README with absolute ones.

The repository keeps links relative, so that they lead to the files of the same checkout. Whoever
reads the metadata has no files beside it. All of them are made of one address, in pyproject.toml.
Hatchling runs this for each build.
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


def links_of(repository: str) -> dict[str, str]:
    """Return what the metadata links to, of the *repository*."""
    base = repository.rstrip("/")
    return {
        "Source": base,
        "Documentation": f"{base}/tree/main/docs",
        "Changelog": f"{base}/blob/main/CHANGELOG.md",
        "Issues": f"{base}/issues",
    }


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme`` and ``urls``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put README and links into *metadata*; those of a release's README lead to its tag."""
        repository = str(self.config["repository"])
        version = str(metadata["version"])
        revision = "main" if "dev" in version else f"v{version}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, repository, revision),
        }
        metadata["urls"] = links_of(repository)
