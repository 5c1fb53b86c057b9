"""The site: its sources hold together, its examples run, and where it was built it needs nothing from outside."""

import doctest
import importlib.util
import inspect
import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from gsm8k_nb.answers import RULES
from gsm8k_nb.config import RunConfig
from gsm8k_nb.config.comparison import CompareConfig

from .conftest import ROOT

DOCS = ROOT / "docs"
SITE = DOCS / "_build" / "html"
PAGES = sorted(DOCS.glob("*.md"))
BOOKS = sorted((ROOT / "notebooks").glob("**/*.ipynb"))
LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("docs_conf", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site() -> list[Path]:
    if not (DOCS / "_build" / ".built").exists():
        pytest.skip("the site is not built: make docs")
    return sorted(SITE.glob("**/*.html"))


def chapters() -> list[str]:
    """Every entry of the contents, in order."""
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]


def without_code(text: str) -> str:
    return re.sub(r"^(```|~~~).*?^\1|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#{1,3} (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_and_notebook_is_in_the_contents_once():
    listed = chapters()
    assert len(listed) == len(set(listed))
    wanted = {page.stem for page in PAGES} - {"index"}
    wanted |= {f"notebooks/{book.stem}" for book in BOOKS if book.parent.name == "notebooks"}
    wanted |= {f"bench/results/{page.stem}" for page in (ROOT / "bench" / "results").glob("*.md")}
    assert {name for name in listed if "*" not in name} == wanted
    assert "notebooks/lessons/*" in listed


def sources() -> list[tuple[Path, str]]:
    texts = [(page, page.read_text()) for page in [ROOT / "README.md", *PAGES, *(ROOT / "notebooks").glob("**/*.md")]]
    for book in BOOKS:
        cells = json.loads(book.read_text())["cells"]
        texts.append((book, "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")))
    return texts


@pytest.mark.parametrize(("page", "text"), sources(), ids=lambda page: page.name if isinstance(page, Path) else "")
def test_links_lead_somewhere(page, text):
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path) if path else page
        if page.parent == DOCS and path.startswith("notebooks/"):
            file = ROOT / path  # its executed copy is the page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text()), f"{page.name}: {target}"


def test_the_front_page_is_the_readme_with_its_links_put_right(conf):
    text = conf.site_links("[a](docs/answers.md#x) ![p](docs/a.png) [l](LICENSE)")
    assert text == "[a](answers.md#x) ![p](a.png) [l](../LICENSE)"
    assert conf.site_links("[n](notebooks/eval.ipynb) [w](https://a.org/docs/x)").endswith("(https://a.org/docs/x)")


def test_pages_that_the_front_page_links_to_are_in_the_contents(conf):
    targets = LINK.findall(without_code(conf.site_links((ROOT / "README.md").read_text())))
    pages = [target.partition("#")[0] for target in targets if re.search(r"\.(md|ipynb)(#|$)", target)]
    assert "speed.md" in pages
    for page in pages:
        name = page.rpartition(".")[0]
        assert name in chapters() or name.startswith("notebooks/lessons/"), page


def test_docstrings_show_their_examples_line_by_line(conf):
    shown = conf.literal_blocks("Rows, |x| long:\n\n    one\n    two\n\nMore ``|y|``.")
    assert shown == "Rows, \\|x\\| long::\n\n    one\n    two\n\nMore ``|y|``."


def test_the_chapters_parameters_pass():
    values = yaml.safe_load((DOCS / "compare.yaml").read_text())
    assert CompareConfig.checked(values).allow_unlike


def test_every_answer_rule_is_described():
    text = (DOCS / "answers.md").read_text()
    assert not [name for name in RULES if f"`{name}`" not in text]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_examples_of_additions_run(request):
    """Every block of the page, in its order; then each test in it, with the fixtures and cases that it asks for."""
    for block in blocks("extending.md", "yaml"):
        RunConfig.checked(yaml.safe_load(block))
    names: dict = {"__name__": "extending"}
    for block in blocks("extending.md", "python"):
        exec(compile(block, "extending.md", "exec"), names)
    tests = {name: value for name, value in names.items() if name.startswith("test_")}
    assert len(tests) == 6
    for test in tests.values():
        [case_names, cases] = next((m.args for m in getattr(test, "pytestmark", [])), [(), [()]])
        fixtures = [name for name in inspect.signature(test).parameters if name not in case_names]
        for case in cases:
            test(
                **dict(zip(case_names, case, strict=True)), **{name: request.getfixturevalue(name) for name in fixtures}
            )


def test_the_examples_of_reading_answers_give_what_they_say():
    [text] = blocks("answers.md", "python")
    test = doctest.DocTestParser().get_doctest(text, {}, "answers.md", None, None)
    assert len(test.examples) == 3 and doctest.DocTestRunner().run(test).failed == 0


# The built site


def test_nothing_is_fetched_from_outside(site):
    """No script, style, font, picture or frame of another server: the site is read offline."""
    for page in site:
        text = page.read_text(encoding="utf-8")
        tags = re.findall(r"<(?:script|link|img|iframe|source|video|object|embed)\b[^>]*>", text)
        used = [tag for tag in tags if re.search(r"""\b(?:src|href|data)\s*=\s*["']?(?:https?:)?//""", tag)]
        assert not used, f"{page.name}: {used[:3]}"
        assert not re.search(r"""@import\s+["'(]|url\(["']?(?:https?:)?//""", text), page.name
    for file in [*SITE.glob("_static/**/*.css"), *SITE.glob("_static/**/*.js")]:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"""@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//""", text), file.name
        assert "cdn.jsdelivr.net" not in text and "cdnjs.cloudflare.com" not in text, file.name


def test_links_of_the_site_lead_somewhere(site):
    for page in site:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"""<a\b[^>]*\bhref="([^"#?]+)""", text):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / unquote(unescape(target))).exists(), f"{page.name}: {target}"


def test_chapters_show_what_was_executed(site):
    for book in BOOKS:
        page = SITE / book.relative_to(ROOT).with_suffix(".html")
        text = page.read_text(encoding="utf-8")
        assert 'class="cell_output' in text, page.name
        assert "Traceback (most recent call last)" not in text, page.name
    front = (SITE / "index.html").read_text(encoding="utf-8")
    assert "<h1>gsm8k_nb" in front and "badge" not in front


def test_search_knows_the_chapters(site):
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    listed = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)\s*", index, re.DOTALL)[1])
    assert {"index", "answers", "api", "notebooks/eval"} <= set(listed["docnames"])
    assert "mcnemar" in listed["terms"]
