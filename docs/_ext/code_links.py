"""Code in the text: names that lead to what they name, and blocks without empty lines at their end.

A public name of the package (`LatentClassifier`) leads to its page of the reference, and a file
(`src/latentia/engine/sweep.py`) to a page of the site with its lines.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"(?:src|tests|benchmarks|examples)/[\w/.-]+\.py")
NAME = re.compile(r"[A-Za-z_]\w+")


def page_of(file: str) -> str:
    return f"source/{file.removesuffix('.py')}"


def target(app: Sphinx, docname: str, text: str) -> str | None:
    """Where a literal leads, seen from a page."""
    here = app.builder.get_target_uri(docname)
    if FILE.fullmatch(text) and (ROOT / text).exists():
        app.env.code_link_files.add(text)  # type: ignore[attr-defined]
        return posixpath.relpath(page_of(text) + ".html", posixpath.dirname(here) or ".")
    entry = app.env.domains["py"].data["objects"].get(f"latentia.{text}") if NAME.fullmatch(text) else None
    if entry is None or entry.docname == docname:
        return None
    return f"{app.builder.get_relative_uri(docname, entry.docname)}#{entry.node_id}"


def breakable(literal: nodes.literal) -> nodes.Node:
    """A path may go on in the next line after a slash, and nowhere else."""
    if "/" not in literal.astext():
        return literal.deepcopy()
    code = escape(literal.astext()).replace("/", "/<wbr>")
    return nodes.raw("", f'<code class="literal">{code}</code>', format="html")


def link_literals(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    if not hasattr(app.env, "code_link_files"):
        app.env.code_link_files = set()  # type: ignore[attr-defined]
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference):
            continue
        uri = target(app, docname, literal.astext())
        if uri is not None:
            literal.replace_self(nodes.reference("", "", breakable(literal), refuri=uri, internal=True))


def strip_code(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """No empty line at the end of code, where doctests need one."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        if block.rawsource.rstrip() == text:  # else it is marked up already
            block[:], block.rawsource = [nodes.Text(text)], text


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    for file in sorted(getattr(app.env, "code_link_files", ())):
        code = (ROOT / file).read_text(encoding="utf-8")
        lines = app.builder.highlighter.highlight_block(code, "python", linenos="inline")  # type: ignore[attr-defined]
        body = f"<h1><code>{escape(file)}</code></h1>{lines}"
        yield page_of(file), {"title": file, "body": body, "sourcename": None}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", link_literals)
    app.connect("doctree-resolved", strip_code)
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
