r"""Tables and figures as files: one writer for each format. A figure is drawn in memory, so no half of one is written.

A cell is text of models, labels and data files, so nothing in it acts: not on a terminal, not in a spreadsheet, not in
LaTeX, not in Markdown.

    >>> csv_cell('=HYPERLINK("http://x")'), csv_cell("-1")
    ('\'=HYPERLINK("http://x")', '-1')
    >>> latex("50% of a_b"), markdown("a|b <img src=x>")
    ('50\\% of a\\_\\allowbreak{}b', 'a\\|b \\<img src=x>')
"""

import io
import re
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gsm8k_nb.places import own_table
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import visible

LONG = 24  # characters of a name that is broken over lines in LaTeX
_BREAK = "\N{ZERO WIDTH SPACE}"  # where a long word may go on in the next line
_MARKS = own_table("marks.toml")


def save_figure(run: Run, name: str, figure: Figure) -> None:
    """``figures/NAME.png`` and ``.pdf``."""
    for kind in ("pdf", "png"):
        run.write_bytes(f"figures/{name}.{kind}", figure_bytes(figure, kind))


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """A figure as ``png``, ``pdf`` or ``svg``, without the date of the day: the same results give the same bytes."""
    buffer = io.BytesIO()
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure.savefig(buffer, format=kind, metadata=dated.get(kind))
    return buffer.getvalue()


def save_table(run: Run, name: str, table: pd.DataFrame) -> None:
    """``tables/NAME.csv`` and ``.tex``."""
    run.write_text(f"tables/{name}.csv", csv_text(table))
    run.write_text(f"tables/{name}.tex", latex_tabular(table.reset_index(allow_duplicates=True)))


def csv_text(table: pd.DataFrame) -> str:
    """A table as CSV that neither a terminal nor a spreadsheet acts on; its index is its first columns."""
    return _escaped(table.reset_index(allow_duplicates=True), csv_cell).to_csv(index=False)


def csv_cell(value: Any) -> Any:
    """Text with its control characters shown, and an apostrophe before what a spreadsheet would calculate."""
    if not isinstance(value, str):
        return value
    acts = re.match(_MARKS["csv"]["formula"], value) and not re.fullmatch(_MARKS["csv"]["number"], value)
    return visible(f"'{value}" if acts else value)


def latex_tabular(table: pd.DataFrame, align: str | None = None, strong: np.ndarray | None = None) -> str:
    """A flat table as a ``tabular`` with the rules of booktabs, its cells escaped, those that are ``strong`` bold.

    ``align`` has a letter a column. A first column of long names is broken over lines where it is given.
    """
    cells = _escaped(table, lambda cell: latex(str(cell)))
    styled = cells.style.hide(axis="index")
    if align and table.iloc[:, 0].astype(str).str.len().max() > LONG:
        align = r"p{0.28\linewidth}" + align[1:]
        styled.map(lambda _: r"raggedright:--nowrap", subset=cells.columns[:1])
    if strong is not None:
        styled.apply(lambda _: np.where(strong, "textbf:--rwrap", ""), axis=None)
    return styled.to_latex(hrules=True, column_format=align)


def latex(text: str) -> str:
    """A line of text for LaTeX: special characters escaped, long words may break, other scripts by code point."""
    broken = re.sub(r"(?<=\w)(_|[/.](?=[A-Za-z]))(?=\w)", rf"\1{_BREAK}", " ".join(visible(text).split()))
    broken = re.sub(r"[A-Za-z0-9]{12}(?=[A-Za-z0-9]{6})", rf"\g<0>{_BREAK}", broken)
    plain = {mark: mark if _typesets(mark) else f"[U+{ord(mark):04X}]" for mark in broken}
    escaped = broken.translate(str.maketrans(plain | _MARKS["latex"]))
    # The end of a table's row would take such a beginning of the next for its own.
    return f"{{}}{escaped}" if escaped[:1] in ("[", "*") else escaped


def _typesets(character: str) -> bool:
    """Whether any LaTeX sets this character, whatever the fonts: ASCII and letters with a plain accent."""
    if character.isascii():
        return character.isprintable()
    accented = unicodedata.decomposition(character)[:1] not in ("", "<")
    return accented and ord(character) < 0x180 and "OGONEK" not in unicodedata.name(character, "OGONEK")


def markdown(text: str) -> str:
    """Text for one paragraph or cell of Markdown: no markup, HTML, entity or mathematics of it acts."""
    return re.sub(_MARKS["markdown"]["acts"], r"\\\g<0>", " ".join(visible(text).split()))


def markdown_table(table: pd.DataFrame, align: str, strong: np.ndarray | None) -> str:
    """A flat table in GitHub's Markdown, aligned and with bold cells as in `latex_tabular`."""
    cells = _escaped(table, lambda cell: markdown(str(cell)))
    cells = cells if strong is None else cells.mask(strong, "**" + cells + "**")
    sides = [{"l": "left", "r": "right", "c": "center"}[letter] for letter in align]
    return cells.to_markdown(index=False, disable_numparse=True, colalign=sides)


def _escaped(table: pd.DataFrame, escape: Callable[[Any], Any]) -> pd.DataFrame:
    return table.astype(object).map(escape).set_axis([escape(str(name)) for name in table.columns], axis=1)
