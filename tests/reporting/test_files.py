"""What a run leaves as files: whole or not at all, and nothing in them acts."""

import csv
import doctest
import os
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from gsm8k_nb import summary
from gsm8k_nb.reporting import files
from gsm8k_nb.reporting import page as report
from gsm8k_nb.runs import Run, RunError

from ..samplers.test_replay import evaluate
from ..warm import python

ACTS = [
    '=HYPERLINK("http://x","y")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1",
    " =1",
    "＝1+1",
]
MARKUP = "# a|b *c* [d](http://x) <img src=x onerror=y> `e` $f$ &lt; ~~g~~ \\h"


def test_examples():
    tested = doctest.testmod(files)
    assert tested.attempted >= 2 and not tested.failed


# --- whole or not at all ---


@pytest.fixture
def reported(replay_config) -> summary.Results:
    """A run whose report was saved once: complete."""
    results = evaluate(replay_config)
    report.save(results)
    return results


def made(folder: Path) -> dict[str, bytes]:
    parts = [*folder.glob("tables/*"), *folder.glob("figures/*"), folder / "report.html"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in parts}


def again(folder: Path, before: str) -> subprocess.CompletedProcess:
    """The report of a run, once more in a process of its own, after the statements ``before``."""
    code = (
        "import os, resource, signal\nfrom gsm8k_nb import summary\nfrom gsm8k_nb.reporting import page as report\n"
        "from gsm8k_nb.config import RunConfig\nfrom gsm8k_nb.runs import Run\n"
        f"run = Run({str(folder)!r})\nvalues = run.read_json('config.json')\n"
        "config = RunConfig(**{name: values[name] for name in RunConfig.model_fields if name in values})\n"
        f"results = summary.summarise(run, config)\n{before}\nreport.save(results)\n"
    )
    return subprocess.run([*python(), "-c", code], capture_output=True, text=True)


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    "before",
    [
        f"from matplotlib.backends.backend_pdf import PdfFile\nPdfFile.writeTrailer = lambda *_: {KILL}",
        f"from matplotlib.figure import Figure\nFigure.savefig = lambda *_, **more: {KILL}",
        f"import pathlib\npathlib.Path.replace = lambda *_: {KILL}",
    ],
    ids=["within-a-figure", "before-a-figure", "before-a-move"],
)
def test_a_kill_in_a_repeated_report_leaves_whole_files(reported, before):
    folder = reported.run.folder
    whole = made(folder)
    assert again(folder, before).returncode == -9
    assert made(folder) == whole
    status = reported.run.read_json("manifest.json")["status"]
    assert status == "reporting" or "pathlib" in before
    report.save(reported)
    assert made(folder) == whole and reported.run.read_json("manifest.json")["status"] == "complete"


def test_a_report_under_way_is_not_complete(reported, monkeypatch):
    monkeypatch.setattr(report, "render_html", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.save(reported)
    assert reported.run.read_json("manifest.json")["status"] != "complete"


def test_a_full_disk_is_one_sentence_and_no_half_figure(reported):
    """A limit of the size of a file, which the system refuses to pass as it refuses to fill a full disk."""
    folder = reported.run.folder
    whole = made(folder)
    largest = max(len(raw) for name, raw in whole.items() if name.startswith("figures/"))
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({largest // 2}, {largest}))"
    done = again(folder, limit)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and re.search(r"RunError: cannot write to .*: File too large\. .* make room", last)
    assert made(folder) == whole and reported.run.read_json("manifest.json")["status"] != "complete"
    assert not list(folder.rglob("*.unfinished"))


def full_disk(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("break_it", ["full", "file-for-folder", "folder-for-file"])
def test_what_cannot_be_written_is_named(tmp_path, monkeypatch, break_it):
    run = Run(tmp_path)
    if break_it == "full":
        monkeypatch.setattr(Path, "replace", full_disk)
    elif break_it == "file-for-folder":
        (tmp_path / "figures").write_text("no folder")
    else:
        (tmp_path / "figures" / "x.pdf").mkdir(parents=True)
    with pytest.raises(RunError, match=r"^cannot write to .*\. What was .* make room there"):
        files.save_figure(run, "x", Figure())
    assert not list(tmp_path.rglob("*.unfinished"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
def test_a_read_only_folder_is_named(tmp_path):
    (tmp_path / "figures").mkdir(mode=0o500)
    with pytest.raises(RunError, match="cannot write to .*: Permission denied"):
        files.save_figure(Run(tmp_path), "x", Figure())


@pytest.mark.parametrize(
    "name", ["figures/accuracy_by_steps.pdf", "figures/accuracy_by_steps.png", "tables/accuracy.csv", "report.html"]
)
def test_a_link_is_replaced_and_never_followed(reported, tmp_path, name):
    target = tmp_path / "mine.txt"
    target.write_text("mine")
    file = reported.run.folder / name
    file.unlink()
    file.symlink_to(target)
    report.save(reported)
    assert target.read_text() == "mine" and not file.is_symlink() and file.stat().st_size > 100


# --- nothing acts ---


def test_no_cell_is_a_formula(tmp_path):
    """In cells, in the index and in the heading; numbers stay numbers."""
    table = pd.DataFrame({text: [text, "-1"] for text in ACTS}, index=pd.Index([ACTS[0], "plain"], name=ACTS[3]))
    rows = list(csv.reader(files.csv_text(table.assign(share=[-0.5, 2.0])).splitlines()))
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell.lstrip().startswith(tuple("=+@＝\t"))]
    assert {cell for cell in cells if cell.startswith("-")} == {"-1", "-0.5"}
    assert sum(cell.startswith("'") for cell in cells) == 2 * len(ACTS) + 2
    assert rows[0][1] == "'" + ACTS[0] and rows[2][0] == "plain"


def test_no_control_character_gets_into_a_file():
    table = pd.DataFrame({"text": ["\x1b[31m \x00 \ud800", "\u202etxt"]}, dtype=object)
    for text in (files.csv_text(table), files.latex_tabular(table)):
        assert not set("\x1b\x00\ud800\u202e") & set(text)
    assert "␛[31m ␀ [U+D800]" in files.csv_text(table)


def test_latex_cells_are_text():
    cells = ["\\input{/etc/passwd} $x$ 50% #1 {a}_b^c & ~\n\nnew", "[2cm] *", "*"]
    lines = files.latex_tabular(pd.DataFrame({"a": cells})).split("\\midrule\n")[1].split("\n")
    assert lines[0] == (
        r"\textbackslash{}input\{/etc/\allowbreak{}passwd\} \$x\$ 50\% \#1 \{a\}\_b\textasciicircum{}c \& "
        r"\textasciitilde{} new \\"
    )
    # "\\" at the end of a row takes a star or a bracket after it for its own
    assert lines[1:3] == [r"{}[2cm] * \\", r"{}* \\"]


@pytest.mark.parametrize(
    "text", [MARKUP, "- a", "+ a", "1. a", "12) a", "> a", "=== a", "&#60;b>", "<!-- a", "</b> @a"]
)
def test_markdown_shows_what_was_written(text):
    """As a Markdown parser of its own reads it: one paragraph of plain text."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    [opened, inline, closed] = parser.parse(files.markdown(text))
    assert (opened.type, closed.type) == ("paragraph_open", "paragraph_close")
    assert {child.type for child in inline.children} <= {"text", "text_special"}
    assert "".join(child.content for child in inline.children) == text
