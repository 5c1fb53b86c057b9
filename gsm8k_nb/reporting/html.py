"""Text, tables and figures as HTML that shows them and does nothing else.

    >>> escape("<b>$5</b>")
    '&lt;b&gt;&#36;5&lt;/b&gt;'

Model text is data: wherever it is shown it is escaped, so that a completion full of HTML, Markdown or dollar signs
shows as the characters it is made of.
"""

import base64
import html
from collections.abc import Iterable

import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

from gsm8k_nb.prompts import Prompt
from gsm8k_nb.reporting.files import figure_bytes
from gsm8k_nb.texts import visible

LONG = 20_000  # characters; of a longer text the rest is folded away, whole but out of the way
_PRE = "white-space: pre-wrap; overflow-wrap: anywhere; word-break: normal; font-family: monospace"


def escape(text: str) -> str:
    """Text as HTML that shows exactly its characters; control characters as their pictures, dollars as entities.

    MathJax, which notebooks load, reads ``$`` in any HTML output; an entity inside ``<pre>`` is left alone.
    """
    return html.escape(visible(text)).replace("$", "&#36;")


def preformatted(text: str) -> str:
    """Text as it is, line by line; what is beyond ``LONG`` characters is folded away."""
    head, rest = (f'<pre style="{_PRE}">{escape(part)}</pre>' for part in (text[:LONG], text[LONG:]))
    more = f"The other {len(text) - LONG:,} characters"
    return head if len(text) <= LONG else head + folded(more, rest)


def texts(titled: Iterable[tuple[str, str | None]], otherwise: str = "") -> HTML:
    """Texts below each other, each whole under its title; ``otherwise`` where there are none."""
    blocks = [
        f"<p><b>{escape(title)}</b></p>{preformatted(text if isinstance(text, str) else '')}" for title, text in titled
    ]
    return HTML("".join(blocks) or f"<p>{escape(otherwise)}</p>")


def show_prompt(prompt: Prompt) -> HTML:
    """A rendered prompt: in one piece, or message by message."""
    turns = [{"role": "text", "content": prompt}] if isinstance(prompt, str) else prompt
    return texts((turn["role"], turn["content"]) for turn in turns)


def folded(summary: str, block: str) -> str:
    """A block of HTML that a click on its summary opens."""
    return f'<details class="rest"><summary>{escape(summary)}</summary>{block}</details>'


def table_html(table: pd.DataFrame) -> str:
    """A table as HTML, cells escaped and never shortened."""
    with pd.option_context("display.max_colwidth", None):
        shown = table.map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
        page = shown.reset_index().to_html(index=False, escape=True, border=0)
    return page.replace("<th>", '<th scope="col">')  # cells are escaped: every other < is the table's own


def show_figure(figure: Figure, alt: str) -> HTML:
    """A figure for a notebook's output, with alternative text for those who cannot see it."""
    data = base64.b64encode(figure_bytes(figure, "png")).decode()
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" style="max-width: 640px">')
