"""The paper's tables: what they say, that a real TeX sets them, and the systems of Cobbe et al. to the digit."""

import csv
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml

from gsm8k_nb import comparing
from gsm8k_nb.comparing import paper, tables
from gsm8k_nb.config import RunConfig
from gsm8k_nb.config.comparison import CompareConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting import files
from gsm8k_nb.reporting import tables as of_run
from gsm8k_nb.runs import Run

from ..conftest import ROOT, write_jsonl
from ..samplers.test_replay import evaluate
from ..test_notebooks import papermill
from .test_comparing import comparison_of, run_of

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
    comparison = comparing.load(
        CompareConfig.checked(values | {"runs": f"{folder}/GPT-3*", "out_dir": str(folder / "out")})
    )
    paper.save(comparison)
    return comparison


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
    runs = ", ".join(str(system.run.folder) for system in cobbe.systems)
    parameters = ["-f", "params/paper/cobbe.yaml", "-r", "runs", runs, "-r", "out_dir", str(tmp_path)]
    done = papermill("appendix", tmp_path / "out.ipynb", *parameters)
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
    paper.save(comparison_of(*folders, out_dir=str(tmp_path / "out")))
    assert_clean(compiled(tmp_path / "out"))


def test_latex_is_escaped():
    assert files.latex("100%a_b&c") == r"100\%a\_\allowbreak{}b\&c"
    text = files.latex(NASTY)
    assert r"\textbackslash{}" in text and r"\textless{}\textbar{}\textgreater{}" in text and "é" in text
    assert "[U+0416]" in text and "[U+0104]" in text  # letters that not every font has
    assert not re.search(r"(?<!\\)[%#&_]|[\"<>|]", text)


# --- what the tables say ---


def test_bold_is_the_group_that_cannot_be_told_from_the_best(tmp_path):
    rows = {"A": [1] * 60 + [0] * 40, "B": [1] * 58 + [0] * 42, "C": [1] * 20 + [0] * 80}
    comparison = comparison_of(*(run_of(tmp_path, name, part) for name, part in rows.items()))
    table = paper.accuracy_table(comparison)
    assert table.strong[:, 0].tolist() == [True, True, False] and table.shown["group"].tolist() == ["a", "a", "b"]
    text = paper.to_latex(table)
    assert r"\textbf{A} & 60 & 100 & \textbf{60.00} & " in text and r"\textbf{B}" in text and r"\textbf{C}" not in text
    assert [r"\toprule" in text, r"\midrule" in text, r"\bottomrule" in text, "|" in text] == [True, True, True, False]
    note = table.note
    assert "Protocol: test@1, 0 exemplars, prompt zero_shot, temperature 0" in note
    assert "answers read by the rule flexible" in note
    assert "95% intervals over problems: percentile bootstrap (1,000 resamples, seed 0)" in note
    assert "paired tests with Holm's correction; bold: not told apart from the highest accuracy" in note
    assert "two-sided exact McNemar test" in paper.pairs_table(comparison).note


def test_markdown_is_the_same_table(tmp_path):
    comparison = comparison_of(run_of(tmp_path, "A|x", [1] * 30 + [0] * 30), run_of(tmp_path, "B", [0] * 60))
    lines = paper.to_markdown(paper.accuracy_table(comparison)).split("\n")
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:6]]
    assert cells[0] == ["system", "right", "of", "accuracy %", "95% interval", "group"]
    assert cells[2][:4] == [r"**A\|x**", "30", "60", "**50.00**"] and cells[3][:4] == ["B", "0", "60", "0.00"]


def test_a_single_run_has_a_table_and_a_statement(tmp_path):
    folder = run_of(tmp_path, "A", [1, 0, 1, 1])
    comparison = comparing.load(CompareConfig(runs=folder, out_dir=str(tmp_path / "out")), fewest=1)
    written = paper.save(comparison)
    assert "paper/accuracy.tex" in written.index and not any("pairs" in name for name in written.index)
    assert "cannot be told apart" not in paper.accuracy_table(comparison).note


def own_run(folder, **manifest) -> str:
    """A finished run that made its own samples, with this manifest."""
    path = Path(run_of(folder, "org/A", [1, 0, 1, 1]))
    Run(path).write_json("manifest.json", Run(path).read_json("manifest.json") | MADE | manifest)
    return str(path)


MADE = {
    "engine": {"engine": "transformers", "dtype": "bfloat16", "device": "cuda:0"},
    "environment": {
        "git": {"commit": "0123456789abcdef", "dirty": False}, "python": "3.12.1", "platform": "Plan9 vax", "cores": 3,
        "packages": {"torch": "9.9.9"},
    },
    "sessions": [{"started": "2026-01-02T03:04:05+00:00", "ended": "2026-01-02T05:00:00+00:00", "status": "sampled"}],
    "tokens": {"prompt": 10, "completion": 20},
    "status": "complete",
}  # fmt: skip


def statement_of(*folders: str) -> str:
    return "\n".join(paper.statement(comparing.load(CompareConfig(runs="\n".join(folders) + "\n"), fewest=1)))


def test_statement_has_what_a_repeat_needs(tmp_path):
    text = statement_of(own_run(tmp_path))
    for needed in (
        "3.12.1", "Plan9 vax, 3 cores", "torch 9.9.9", "seed 0", "engine transformers", "org/A", "test@1",
        "0123456789ab", "2026-01-02T03:04:05+00:00 to 2026-01-02T05:00:00+00:00", "bfloat16",
    ):  # fmt: skip
        assert needed in text, needed


@pytest.mark.parametrize("last", [{"ended": None, "status": "running"}, {}, {"ended": ""}])
def test_a_killed_session_has_no_end(tmp_path, last):
    """A run whose last session was killed, and that was then finished without sampling."""
    sessions = [*MADE["sessions"], {"started": "2026-01-03T00:00:00+00:00"} | last]
    folder = own_run(tmp_path, sessions=sessions)
    assert "2026-01-03T00:00:00+00:00 to an end that was not recorded" in statement_of(folder)
    assert "an end that was not recorded" in of_run.made_with(Run(folder)).loc["sampled (UTC)", "value"]


@pytest.mark.parametrize("part", ["engine", "environment", "sessions", "tokens"])
def test_a_statement_of_what_was_not_recorded(tmp_path, part):
    assert "Comparison: 4 problems" in statement_of(own_run(tmp_path, **{part: {} if part != "sessions" else []}))


def test_samples_of_others_are_not_said_to_be_made_here(replay_config):
    """Nothing of the machine, the packages and the day on which they were read in; the file that they came from."""
    results = evaluate(replay_config)
    results.run.write_json("manifest.json", results.run.read_json("manifest.json") | {
        name: MADE[name] for name in ("environment", "sessions")
    })  # fmt: skip
    text = statement_of(str(results.run.folder))
    samples, comparison = text.split("Comparison:")
    for foreign in ("Plan9", "torch", "2026-01-02", "3.12.1", "0123456789ab", "seed"):
        assert foreign not in samples and foreign not in str(of_run.made_with(results.run)), foreign
    digest = hashlib.sha256(Path(replay_config.replay_path).read_bytes()).hexdigest()
    assert "source samples.jsonl" in samples and digest in samples and "made elsewhere" in samples


def test_a_replay_of_a_run_names_the_model_that_made_it(replay_config, tmp_path):
    """And so does one of an imported log, with the tool that wrote it, its day and its packages."""
    source = Path(own_run(tmp_path / "source"))
    config = replay_config.model_copy(
        update={"replay_path": str(source), "protocol_label": None, "model": "mine", "seed": 5}
    )
    problems = Run(source).read_records("problems.jsonl", Problem)
    write_jsonl(
        Path(config.data_path), [{"question": problem.question, "answer": problem.solution} for problem in problems]
    )
    folder = str(evaluate(config).run.folder)
    assert "model org/A" in statement_of(folder) and "seed 0" in statement_of(folder).split("Comparison")[0]
    stored = Run(folder).read_json("config.json")
    log = {
        "tool": "lm-eval",
        "version": "0.4.9",
        "model": "their/model",
        "time": "2025-05-05",
        "packages": {"x": "1.2"},
    }
    Run(folder).write_json("config.json", stored | {"inputs": stored["inputs"] | {"replay_config": None, "log": log}})
    text = statement_of(folder)
    for needed in ("model their/model", "tool lm-eval", "version 0.4.9", "time 2025-05-05", "packages x 1.2"):
        assert needed in text, needed


def test_numbers_in_csv_are_numbers(tmp_path):
    comparison = comparison_of(run_of(tmp_path, "A", [1] * 30 + [0] * 30), run_of(tmp_path, "B", [0, 1] * 30))
    pairs = tables.pair_numbers(comparison)
    assert pairs["difference"].dtype == float and pairs["p"].between(0, 1).all()
    frame = tables.accuracy_numbers(comparison)
    assert pd.api.types.is_float_dtype(frame["low"]) and (frame["low"] <= frame["accuracy"]).all()
