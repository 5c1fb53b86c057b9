"""The paper's tables: what they say, that a real TeX sets them, and the systems of Cobbe et al. to the digit."""

import csv
import os
import re
import shutil
import subprocess

import pandas as pd
import pytest
import yaml

from gsm8k_nb import comparing
from gsm8k_nb.comparing import paper as appendix
from gsm8k_nb.config import CompareConfig, RunConfig

from ..conftest import ROOT
from ..samplers.test_replay import evaluate
from ..test_notebooks import papermill
from .test_comparing import found_of, run_of

NASTY = r'a&b_100%#1 {x} ~^\ <|> "q" `$\alpha$` é Ą Ж'


@pytest.fixture(scope="module")
def cobbe(official, tmp_path_factory) -> comparing.Comparison:
    """The comparison of `make paper`: its parameter files, with the data wherever the tests find them."""
    folder = tmp_path_factory.mktemp("cobbe")
    replay = {
        "data_path": str(official / "test.jsonl"),
        "replay_path": str(official / "example_model_solutions.jsonl"),
        "outputs_dir": str(folder),
        "rules": "both",  # the others are no part of this
    }
    for file in sorted((ROOT / "params").glob("cobbe-*.yaml")):
        evaluate(RunConfig.checked(yaml.safe_load(file.read_text()) | replay))
    values = yaml.safe_load((ROOT / "params" / "paper" / "cobbe.yaml").read_text())
    found = comparing.load(CompareConfig.checked(values | {"runs": f"{folder}/GPT-3*", "out_dir": str(folder / "out")}))
    appendix.save(found)
    return found


def test_cobbe_to_the_last_digit(cobbe):
    """The figures of the released systems (Cobbe et al. 2021), and all six pairs with Holm's correction."""
    with (cobbe.config.out_folder / "paper" / "accuracy.csv").open() as file:
        rows = {row["system"]: row for row in csv.DictReader(file)}
    right = {name: (int(row["right"]), f"{100 * float(row['accuracy']):.2f}") for name, row in rows.items()}
    assert right == {
        "GPT-3 175B + verifier": (742, "56.25"),
        "GPT-3 6B + verifier": (515, "39.04"),
        "GPT-3 175B fine-tuned": (458, "34.72"),
        "GPT-3 6B fine-tuned": (286, "21.68"),
    }
    with (cobbe.config.out_folder / "paper" / "pairs.csv").open() as file:
        pairs = {(row["first"], row["second"]): row for row in csv.DictReader(file)}
    counts = {pair: (int(row["only_first"]), int(row["only_second"])) for pair, row in pairs.items()}
    assert counts == {
        ("GPT-3 6B + verifier", "GPT-3 175B fine-tuned"): (209, 152),
        ("GPT-3 6B + verifier", "GPT-3 6B fine-tuned"): (293, 64),
        ("GPT-3 175B fine-tuned", "GPT-3 6B fine-tuned"): (260, 88),
        ("GPT-3 175B + verifier", "GPT-3 6B + verifier"): (306, 79),
        ("GPT-3 175B + verifier", "GPT-3 175B fine-tuned"): (360, 76),
        ("GPT-3 175B + verifier", "GPT-3 6B fine-tuned"): (499, 43),
    }
    row = pairs["GPT-3 6B + verifier", "GPT-3 175B fine-tuned"]
    assert f"{100 * float(row['difference']):+.2f}" == "+4.32" and f"{100 * float(row['standard_error']):.2f}" == "1.44"
    assert f"{float(row['p']):.4f}" == "0.0032" and f"{float(row['p_unpaired_z']):.3f}" == "0.021"
    assert row["test"] == "exact McNemar test" and row["p_corrected"] == row["p"]  # the largest of six
    assert all(row["correction"] == "holm" and row["different"] == "True" for row in pairs.values())
    assert cobbe.letters == ("a", "b", "c", "d")


def test_cobbe_is_unlike_on_purpose(cobbe):
    """A verifier's pick of 100 is not a single answer: the paper's own comparison needs the banner."""
    assert list(cobbe.unlike) == ["metric"]
    unlike = {cobbe.names(pair): bool(pair.unlike) for pair in cobbe.pairs}
    assert not unlike["GPT-3 175B fine-tuned", "GPT-3 6B fine-tuned"]
    assert unlike["GPT-3 6B + verifier", "GPT-3 175B fine-tuned"]
    [pair] = [pair for pair in cobbe.pairs if cobbe.names(pair) == ("GPT-3 6B + verifier", "GPT-3 175B fine-tuned")]
    assert comparing.conclusion(cobbe, pair) == (
        "GPT-3 6B + verifier is better than GPT-3 175B fine-tuned: +4.32 points (95% interval 1.43 to 7.21; exact "
        "McNemar test p = 0.0032, after Holm's correction for 6 pairs p = 0.0032; 209 problems only the first solves, "
        "152 only the second). They are unlike in metric."
    )
    for name in ("accuracy", "pairs"):
        text = (cobbe.config.out_folder / "paper" / f"{name}.tex").read_text()
        assert "UNLIKE RUNS. These differ in metric." in text


def test_appendix_runs_through_papermill(cobbe, tmp_path):
    runs = ", ".join(str(one.run.folder) for one in cobbe.systems)
    given = ["-f", "params/paper/cobbe.yaml", "-r", "runs", runs, "-r", "out_dir", str(tmp_path)]
    done = papermill("appendix", tmp_path / "out.ipynb", *given)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("accuracy.tex", "accuracy.md", "accuracy.csv", "pairs.tex", "pairs.csv"):
        again = (tmp_path / "paper" / name).read_bytes()
        assert again == (cobbe.config.out_folder / "paper" / name).read_bytes()  # the same runs, the same digits


# --- LaTeX ---


def compiled(folder, name="appendix") -> str:
    """The log of the second run of a real TeX over ``NAME.tex``; it must not fail."""
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed (Debian: texlive-latex-base, texlive-latex-recommended)")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
    quiet = os.environ | {"max_print_line": "1000"}
    for _ in range(2):  # labels are known from the second run on
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", env=quiet)
        assert done.returncode == 0, done.stdout[-3000:]
    return (folder / f"{name}.log").read_text(errors="replace")


def assert_clean(log: str) -> None:
    assert "Output written on " in log
    assert not re.findall(r".*(?:Warning|Overfull|Underfull|undefined).*", log)


def test_cobbe_compiles_without_a_warning(cobbe):
    assert_clean(compiled(cobbe.config.out_folder))


def test_a_pasted_table_compiles_without_a_warning(cobbe):
    """As a reader of the appendix would use it: the table alone, in the plainest article."""
    folder = cobbe.config.out_folder
    tables = "\n".join((folder / "paper" / f"{name}.tex").read_text() for name in ("accuracy", "pairs"))
    text = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}Text.{tables}\end{{document}}"
    (folder / "pasted.tex").write_text(text)
    assert_clean(compiled(folder, "pasted"))


def test_nasty_and_long_names_compile_without_a_warning(tmp_path):
    rows = ([1, 0, 1, 1] * 10, [0, 0, 1, 1] * 10, [1, 0, 0, 0] * 10)
    names = (NASTY, "Meta-Llama-3.1-405B-Instruct-FP8-with-a-name-that-goes-on", "x" * 20 + "_" + "y" * 20)
    folders = [run_of(tmp_path, name, part) for name, part in zip(names, rows, strict=True)]
    appendix.save(found_of(*folders, out_dir=str(tmp_path / "out")))
    assert_clean(compiled(tmp_path / "out"))


def test_latex_is_escaped():
    assert appendix.latex("100%a_b&c") == r"100\%a\_\allowbreak{}b\&c"
    text = appendix.latex(NASTY)
    assert r"\textbackslash{}" in text and r"\textless{}\textbar{}\textgreater{}" in text and "é" in text
    assert "[U+0416]" in text and "[U+0104]" in text  # letters that not every font has
    assert not re.search(r"(?<!\\)[%#&_]|[\"<>|]", text)


# --- what the tables say ---


def test_bold_is_the_group_that_cannot_be_told_from_the_best(tmp_path):
    rows = {"A": [1] * 60 + [0] * 40, "B": [1] * 58 + [0] * 42, "C": [1] * 20 + [0] * 80}
    found = found_of(*(run_of(tmp_path, name, part) for name, part in rows.items()))
    table = appendix.accuracy_table(found)
    assert table.bold == [True, True, False] and [row[-1] for row in table.rows] == ["a", "a", "b"]
    text = appendix.to_latex(table)
    assert r"\textbf{A} & 60/100 & \textbf{60.00} & " in text and r"\textbf{B}" in text and r"\textbf{C}" not in text
    assert [r"\toprule" in text, r"\midrule" in text, r"\bottomrule" in text, "|" in text] == [True, True, True, False]
    note = table.note
    assert "Protocol: test@1, 0 exemplars, prompt zero_shot, temperature 0" in note
    assert "answers read by the rule strict" in note
    assert "95% intervals over problems: percentile bootstrap (1,000 resamples, seed 0)" in note
    assert "paired tests with Holm's correction; bold: not told apart from the highest accuracy" in note
    assert "two-sided exact McNemar test" in appendix.pairs_note(found)


def test_markdown_is_the_same_table(tmp_path):
    found = found_of(run_of(tmp_path, "A|x", [1] * 30 + [0] * 30), run_of(tmp_path, "B", [0] * 60))
    lines = appendix.to_markdown(appendix.accuracy_table(found)).split("\n")
    assert lines[2] == "| System | Right | Accuracy (%) | 95% interval | Group |"
    assert lines[4].startswith(r"| **A\|x** | 30/60 | **50.00** | ") and lines[5].startswith("| B | 0/60 | 0.00 | ")
    assert {re.sub(r"\\\|", "", line).count("|") for line in lines[2:6]} == {6}


def test_a_single_run_has_a_table_and_a_statement(tmp_path):
    folder = run_of(tmp_path, "A", [1, 0, 1, 1])
    found = comparing.load(CompareConfig(runs=folder, out_dir=str(tmp_path / "out")), fewest=1)
    written = appendix.save(found)
    assert "paper/accuracy.tex" in written.index and not any("pairs" in name for name in written.index)
    assert "cannot be told apart" not in appendix.accuracy_note(found)


def test_statement_has_what_a_repeat_needs(replay_config):
    from gsm8k_nb.reporting import page as report

    results = evaluate(replay_config)
    report.save(results)
    folder = results.run.folder
    found = comparing.load(CompareConfig(runs=str(folder)), fewest=1)
    text = "\n".join(appendix.statement(found))
    manifest = results.run.read_json("manifest.json")
    for needed in (
        results.metrics["dataset"]["sha256"], manifest["environment"]["python"], manifest["environment"]["platform"],
        manifest["environment"]["packages"]["numpy"], "seed 0", "engine replay", folder.name, "a test, test@1",
        manifest["sessions"][0]["started"][:10],
    ):  # fmt: skip
        assert needed in text, needed
    git = manifest["environment"]["git"]
    assert ("commit not recorded" if git is None else git["commit"][:12]) in text


def test_numbers_in_csv_are_numbers(tmp_path):
    found = found_of(run_of(tmp_path, "A", [1] * 30 + [0] * 30), run_of(tmp_path, "B", [0, 1] * 30))
    pairs = appendix.pairs_numbers(found)
    assert pairs["difference"].dtype == float and pairs["p"].between(0, 1).all()
    frame = appendix.accuracy_numbers(found)
    assert pd.api.types.is_float_dtype(frame["low"]) and (frame["low"] <= frame["accuracy"]).all()
