"""Each lesson goes once round through nbgrader: the solution earns every point, the blank sheet none."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from gsm8k_nb.__main__ import main
from gsm8k_nb.lessons import live, sheets

from ..conftest import ROOT

pytest.importorskip("nbgrader", reason="the teach extra is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's own
BOOKS = sorted((ROOT / "notebooks" / "lessons").glob("*.ipynb"))
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
ASK_A_MODEL = {"2_prompting", "4_chance", "6_contamination"}
ENGINES = ("torch", "transformers", "openai")
BLOCKED = f"""import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ENGINES}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """A course of all lessons, in a folder of its own, for kernels in which no engine can be imported."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "blocked").mkdir()
    (folder / "blocked" / "sitecustomize.py").write_text(BLOCKED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder / "blocked"), prepend=os.pathsep)
        patch.setenv("GSM8K_NB_WITHOUT", " ".join(ENGINES))  # in kernels that start warm
        yield sheets.course(folder, [elsewhere(book, folder) for book in BOOKS])


def elsewhere(book: Path, folder: Path) -> Path:
    """The lesson with its completions in ``folder``, as someone would write it into its parameters cell."""
    notebook = nbformat.read(book, as_version=4)
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    cell.source = re.sub(r"(outputs_dir: str = )\S+", rf"\g<1>{str(folder / 'completions')!r}", cell.source)
    (folder / "lessons").mkdir(exist_ok=True)
    nbformat.write(notebook, folder / "lessons" / book.name)
    return folder / "lessons" / book.name


def mark(api, lesson: str, student: str, sheet: Path) -> tuple[float, float]:
    """Hand in a sheet for ``student`` and mark it: (points, points to be had)."""
    folder = Path(api.coursedir.root) / "submitted" / student / lesson
    folder.mkdir(parents=True)
    shutil.copy(sheet, folder / f"{lesson}.ipynb")
    marked = api.autograde(lesson, student)
    assert marked["success"], marked
    with api.gradebook as gradebook:
        submission = gradebook.find_submission(lesson, student)
        return submission.score, submission.max_score


def code(book: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(book, as_version=4).cells if cell.cell_type == "code"]


def lines_between(pattern: re.Pattern, sources: list[str]) -> set[str]:
    parts = "\n".join(part for source in sources for part in pattern.findall(source))
    return {line.strip() for line in parts.splitlines() if len(line.strip()) > 12}


def test_there_are_lessons():
    assert BOOKS and sheets.lessons() == BOOKS


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_points_and_names(book):
    """3 to 5 exercises; every check is locked and worth something; the ids are the lesson's own."""
    cells = nbformat.read(book, as_version=4).cells
    marked = [cell for cell in cells if "nbgrader" in cell.metadata]
    facts = [cell.metadata.nbgrader for cell in marked]
    assert 3 <= sum(fact.solution for fact in facts) <= 5
    assert len({fact.grade_id for fact in facts}) == len(facts)
    assert all(fact.schema_version == 3 and fact.solution != fact.grade for fact in facts)
    assert all(fact.locked and fact.points > 0 for fact in facts if fact.grade)
    for cell in marked:
        assert cell.metadata.tags == ["exercise"]
        assert cell.metadata.nbgrader.grade or SOLUTION.search(cell.source)
    assert all("exercise" not in cell.metadata.get("tags", []) for cell in cells if "nbgrader" not in cell.metadata)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_every_check_says_what_is_wrong(book):
    for source in code(book):
        silent = [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert) and not node.msg]
        assert not silent, f"assert without a message in line {silent[0]} of:\n{source}"


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_round_trip(api, book):
    sheet = sheets.release(api, book.stem)
    book = Path(api.coursedir.root) / "source" / book.stem / book.name
    master, released = code(book), code(sheet)
    secret = lines_between(HIDDEN, master) | lines_between(SOLUTION, master)
    shown = {line.strip() for source in released for line in source.splitlines()}
    elsewhere = {line.strip() for source in master for line in HIDDEN.sub("", SOLUTION.sub("", source)).splitlines()}
    assert secret - elsewhere and not (secret - elsewhere) & shown
    assert "HIDDEN TESTS" not in "".join(released) and "BEGIN SOLUTION" not in "".join(released)

    points, full = mark(api, book.stem, "solution", book)
    assert points == full > 0
    marked = Path(api.coursedir.root) / "autograded" / "solution" / book.stem / book.name
    executed = nbformat.read(marked, as_version=4)
    for cell in executed.cells:
        if cell.cell_type == "code":  # end to end, not only the marked cells
            assert cell.execution_count, cell.source
            assert all(output.output_type != "error" for output in cell.outputs), cell.source
    said = [output.text for cell in executed.cells for output in cell.get("outputs", []) if "text" in output]
    assert (live.NO_ENGINE in "".join(said)) == (book.stem in ASK_A_MODEL)
    blank, full = mark(api, book.stem, "blank", sheet)
    assert blank == 0 < full


def test_a_wrong_answer_costs_its_own_points_only(api, tmp_path):
    """A half-right sheet of the first lesson: every point but those of the one function that is wrong."""
    book = BOOKS[0]
    notebook = nbformat.read(book, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.id == "final-answer")
    before = cell.source
    cell.source = before.replace('.replace(",", "")', "")
    assert cell.source != before
    nbformat.write(notebook, tmp_path / book.name)
    sheets.release(api, book.stem)
    points, full = mark(api, book.stem, "half", tmp_path / book.name)
    assert points == full - 2


def test_the_sites_copy_has_outputs_and_no_solutions(tmp_path):
    book = shutil.copy(BOOKS[0], tmp_path)
    notebook = nbformat.read(book, as_version=4)
    shown = nbformat.v4.new_output("stream", text="shown")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [shown]
    nbformat.write(notebook, book)
    [options] = re.findall(
        r"^BLANK := jupyter-nbconvert((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    subprocess.run([sys.executable, "-m", "nbconvert", *options.replace("\\\n", "").split(), book], check=True)
    cells = [cell for cell in nbformat.read(book, as_version=4).cells if cell.cell_type == "code"]
    assert not [cell for cell in cells if SOLUTION.search(cell.source) or HIDDEN.search(cell.source)]
    assert any("NotImplementedError" in cell.source for cell in cells)
    assert all(cell.outputs == [shown] for cell in cells)


def test_the_command_makes_the_sheets(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sheets, "lessons", lambda: BOOKS[:1])
    assert main(["lessons", str(tmp_path / "course")]) == 0
    [sheet] = capsys.readouterr().out.split()
    assert Path(sheet).exists() and Path(sheet).parent == tmp_path / "course" / "release" / BOOKS[0].stem
    with pytest.raises(SystemExit):
        main(["lessons"])
    assert "usage: " in capsys.readouterr().err


def test_a_sheet_without_its_marks_is_refused_in_words(tmp_path):
    (tmp_path / "empty.ipynb").write_text("{}")
    shutil.rmtree(tmp_path / "course", ignore_errors=True)
    api = sheets.course(tmp_path / "course", [tmp_path / "empty.ipynb"])
    with pytest.raises(sheets.SheetError, match="the sheet of empty could not be made"):
        sheets.release(api, "empty")
