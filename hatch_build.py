"""The README as package indexes show it: links that lead somewhere outside of the repository.

`[project.urls]` of `pyproject.toml` is the one place for addresses. With a `Repository` there,
relative links and pictures of the README become absolute ones under it; without one, links become
plain text and pictures their descriptions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the tests use the function alone
    MetadataHookInterface = object  # type: ignore[assignment, misc]

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def absolute_links(text: str, repository: str | None) -> str:
    """Markdown without relative links."""

    def replace(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if repository is None:
            return f"*{words}*" if picture else words
        base = f"{repository.rstrip('/')}/{'raw' if picture else 'blob'}/main"
        return f"{picture}[{words}]({base}/{target})"

    return LINK.sub(replace, text)


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc, valid-type]
    """Gives the package its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text, repository)}
