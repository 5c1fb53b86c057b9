"""Settings of the site: the README as its front page, the executed notebooks as chapters, Markdown pages, the API.

    make docs        # executes notebooks/*.ipynb into docs/notebooks/, then builds docs/_build/html/index.html

Sphinx, MyST-NB and the book theme are what Jupyter Book 1 was made of. Jupyter Book 2 fetches its page templates from
the network when it builds; this site has to build, and to be read, without one.
"""

import importlib
import json
import re
from pathlib import Path

from gsm8k_nb import __version__

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "gsm8k_nb"
author = "The gsm8k_nb authors"
release = version = __version__
html_title = "gsm8k_nb"
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
suppress_warnings = ["myst.header"]  # parts printed by bench/ begin at the third level

# Notebooks come executed: each has its own parameters, and a page must show what papermill ran.
nb_execution_mode = "off"
nb_merge_streams = True  # one block of progress, not one for each line
nb_ipywidgets_js = {}  # the default loads scripts from the network; every widget here has a static fallback
nb_code_prompt_show = "Show the parameters"
nb_code_prompt_hide = "Hide the parameters"
highlight_language = "none"  # blocks without a language are commands, files and texts
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3  # links to headings of other pages, as GitHub makes them

toc_object_entries = False  # the contents beside the API are its modules
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
# All before autodoc reads the first: it writes into pydantic's own classes, and no model can be defined after that.
for module in re.findall(r"automodule:: (\S+)", (DOCS / "api.md").read_text(encoding="utf-8")):
    importlib.import_module(module)

html_theme = "sphinx_book_theme"
html_theme_options = {
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],  # the sidebar has the search already
}
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]

FOLDED = {"BEGIN SOLUTION": "a solution", "BEGIN HIDDEN TESTS": "the checks"}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)([^)]*\))")
BLOCK = re.compile(r"^(\S.*)\n(?=\n {4,}\S)", re.MULTILINE)  # a paragraph with an indented block below it


def site_links(text: str) -> str:
    """The README with its relative links as seen from ``docs/``, where the pages lie.

    ``docs/statistics.md`` becomes ``statistics.md``, ``LICENSE`` becomes ``../LICENSE``; ``notebooks/eval.ipynb`` and
    ``bench/results/client.md`` stay as they are: pages are made of them.
    """

    def rewritten(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith(("notebooks/", "bench/results/")):
            return match[0]
        inside = target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
        return before + inside + after

    return LINK.sub(rewritten, text)


def up(text: str) -> str:
    """Links to ``../docs/``: a page of a notebook lies one folder deeper than the notebook does."""
    return re.sub(r"\]\(((?:\.\./)+)docs/", r"](\1", text)


def as_chapter(text: str) -> str:
    """An executed notebook as a page: solutions and checks are folded away, and so are long lists of parameters."""
    book = json.loads(text)
    for cell in book["cells"]:
        source, tags = "".join(cell["source"]), cell["metadata"].setdefault("tags", [])
        if cell["cell_type"] == "markdown":
            cell["source"] = up(source)
        elif folded := next((what for mark, what in FOLDED.items() if mark in source), None):
            tags.append("hide-input")
            cell["metadata"]["mystnb"] = {"code_prompt_show": f"Show {folded}", "code_prompt_hide": f"Hide {folded}"}
        elif cell["metadata"].get("jupyter", {}).get("source_hidden"):  # the parameters of a run
            tags.append("hide-input")
    return json.dumps(book)


def literal_blocks(text: str) -> str:
    """A docstring, plain text with indented examples, as reStructuredText that shows them line by line."""
    marked = BLOCK.sub(
        lambda match: match[1].removesuffix(":") + "::\n" if match[1].endswith(":") else match[0] + "\n::\n", text
    )
    parts = re.split(r"(``.*?``)", marked)
    return "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def setup(app) -> None:
    """Called by Sphinx: texts that are written for other readers are put right as they are read."""

    def included(app, path: Path, parent: str, content: list[str]) -> None:
        content[0] = site_links(content[0])

    def notebook(app, page: str, content: list[str]) -> None:
        if page.startswith("notebooks/"):
            content[0] = as_chapter(content[0]) if (DOCS / f"{page}.ipynb").exists() else up(content[0])
        elif not page.startswith("bench/"):
            content[0] = content[0].replace(
                "](../bench/results/", "](bench/results/"
            )  # copied below docs/ for the site

    def docstring(app, what, name, obj, options, lines: list[str]) -> None:
        lines[:] = literal_blocks("\n".join(lines)).split("\n")

    app.connect("include-read", included)
    app.connect("source-read", notebook)
    app.connect("autodoc-process-docstring", docstring)
