"""Equations as MathML, which browsers draw by themselves: nothing to fetch, nothing to run.

Docutils translates the TeX. What it cannot read is a warning, which the build makes an error.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def translate(node: nodes.Element, as_block: bool) -> str:
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("cannot translate %r: %s", node.astext(), error, location=node)
        return ""


def visit_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(translate(node, as_block=False))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """A box that scrolls by itself where the screen is narrower than the equation."""
    writer.body.append(f'<div class="equation" tabindex="0">{translate(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
