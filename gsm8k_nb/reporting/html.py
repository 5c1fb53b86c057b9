"""Text, tables and figures as HTML that shows them and does nothing else; the markup is ``assets/blocks.html.jinja``.

    >>> escape("<b>$5</b>")
    Markup('&lt;b&gt;&#36;5&lt;/b&gt;')

Model text is data: wherever it is shown it is escaped, so that a completion full of HTML, Markdown or dollar signs
shows as the characters it is made of.
"""

import base64
import html
from collections.abc import Iterable
from functools import cache
from typing import Any

import pandas as pd
from IPython.display import HTML
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from gsm8k_nb.places import own_asset
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.reporting.files import figure_bytes
from gsm8k_nb.texts import visible


def escape(value: Any) -> Markup:
    """A value as HTML that shows exactly its characters; control characters as their pictures, dollars as entities.

    MathJax, which notebooks load, reads ``$`` in any HTML output; an entity inside ``<pre>`` is left alone.
    """
    return (
        Markup(value) if hasattr(value, "__html__") else Markup(html.escape(visible(str(value))).replace("$", "&#36;"))
    )


@cache
def _blocks() -> Any:
    environment = Environment(autoescape=True, finalize=escape, undefined=StrictUndefined)
    return environment.from_string(own_asset("blocks.html.jinja"), {"table": table_html}).module


def block(name: str, *values: Any) -> HTML:
    """One of the blocks of ``assets/blocks.html.jinja``."""
    return HTML(getattr(_blocks(), name)(*values))


def texts(titled: Iterable[tuple[str, str | None]], otherwise: str = "") -> HTML:
    """Texts below each other, each whole under its title; ``otherwise`` where there are none."""
    return block("texts", list(titled), otherwise)


def show_prompt(prompt: Prompt) -> HTML:
    """A rendered prompt: in one piece, or message by message."""
    turns = [{"role": "text", "content": prompt}] if isinstance(prompt, str) else prompt
    return texts((turn["role"], turn["content"]) for turn in turns)


def table_html(table: pd.DataFrame) -> Markup:
    """A table as HTML, cells escaped and never shortened."""
    with pd.option_context("display.max_colwidth", None):
        shown = table.map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
        page = shown.reset_index().to_html(index=False, escape=True, border=0)
    return Markup(page.replace("<th>", '<th scope="col">'))  # cells are escaped: every other < is the table's own


def show_figure(figure: Figure, alt: str) -> HTML:
    """A figure for a notebook's output, with alternative text for those who cannot see it."""
    return block("figure", base64.b64encode(figure_bytes(figure, "png")).decode(), alt)
