import csv
import dataclasses
import json
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gsm8k_nb import comparing, stats
from gsm8k_nb.comparing import ComparisonError, conclusion, figures, load, paper, tables
from gsm8k_nb.config import ConfigError
from gsm8k_nb.config.comparison import CompareConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting import files
from gsm8k_nb.runs import RunError

from ..test_notebooks import papermill
from ..test_summary import results_of

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> $\\frac{1}{2}$ | **b**\n#### 6"


SHORT = r"Unlike runs \(max_new_tokens\): see the warning above\.</p>"


def problems_of(n: int) -> list[Problem]:
    return [Problem(f"test-{i:04d}", f"Question {i}?", "1 + 4 = 5\n#### 5", Decimal(5)) for i in range(n)]


def run_of(folder, model, verdicts, wrong="#### 6", problems=None, **options) -> str:
    """A finished run with these verdicts, ``(problems, samples)`` of 1, 0 or None (failed); returns its folder."""
    rows = [row if isinstance(row, list) else [row] for row in verdicts]
    texts = [[None if right is None else "#### 5" if right else wrong for right in row] for row in rows]
    return str(results_of(problems or problems_of(len(rows)), texts, folder, model=model, **options).run.folder)


def comparison_of(*folders, **options) -> comparing.Comparison:
    return load(CompareConfig(runs=", ".join(folders), n_resamples=1000, **options))


def two_runs(tmp_path, both=30, only_a=30, only_b=10, neither=30, **options) -> comparing.Comparison:
    a = [1] * (both + only_a) + [0] * (only_b + neither)
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return comparison_of(run_of(tmp_path, "org/A", a), run_of(tmp_path, "org/B", b), **options)


def test_a_pair_is_what_stats_says(tmp_path):
    comparison = two_runs(tmp_path)
    assert [system.name for system in comparison.systems] == ["A", "B"] and comparison.letters == ("a", "b")
    [pair] = comparison.pairs
    expected = stats.compare(
        comparison.systems[0].verdicts[:, 0], comparison.systems[1].verdicts[:, 0], n_resamples=1000
    )
    assert pair.result == expected and pair.result.difference == pytest.approx(0.2)
    assert (pair.result.only_a, pair.result.only_b, pair.test) == (30, 10, "exact McNemar test")
    assert pair.result.p == pair.p_adjusted == stats.mcnemar_p(30, 10)
    assert pair.paired.unpaired_p() > pair.result.p and pair.different and pair.result.bound > pair.result.difference
    text = conclusion(comparison, pair)
    assert text.startswith("A is better than B: +20.00 points (95% interval ")
    assert "exact McNemar test p = 0.0022; 30 problems only the first solves, 10 only the second)." in text
    assert "correction" not in text  # a single pair needs none


def test_better_only_where_the_corrected_test_says_so(tmp_path):
    comparison = two_runs(tmp_path, only_a=15, only_b=10)
    text = conclusion(comparison, comparison.pairs[0])
    assert "better" not in text and text.startswith("No difference between A and B is shown: +5.88 points")
    assert "rules out a true difference of more than" in text and comparison.letters == ("a", "a")
    assert comparison.best == [True, True]


def test_correction_counts_all_pairs(tmp_path):
    """A pair at p = 0.04 by itself is no finding among three; Benjamini and Hochberg's is the milder correction."""
    a, b, c = [1] * 100, [1] * 94 + [0] * 6, [1] * 99 + [0]
    folders = [run_of(tmp_path, name, rows) for name, rows in (("A", a), ("B", b), ("C", c))]
    comparison = comparison_of(*folders)
    raw = [pair.result.p for pair in comparison.pairs]
    assert min(raw) < 0.05
    assert [pair.p_adjusted for pair in comparison.pairs] == pytest.approx(stats.holm(raw))
    assert not any(pair.different for pair in comparison.pairs) and set(comparison.letters) == {"a"}
    assert all("better" not in conclusion(comparison, pair) and "after Holm's" in conclusion(comparison, pair)
               for pair in comparison.pairs)  # fmt: skip
    milder = comparison_of(*folders, correction="bh")
    assert [pair.p_adjusted for pair in milder.pairs] == pytest.approx(stats.benjamini_hochberg(raw))
    assert "Benjamini and Hochberg's correction" in conclusion(milder, milder.pairs[0])


def test_words_follow_the_test_for_any_verdicts(tmp_path):
    rng = np.random.default_rng(0)
    folders = [run_of(tmp_path, f"M{i}", (rng.random(80) < p).astype(int).tolist())
               for i, p in enumerate((0.2, 0.45, 0.5, 0.55, 0.9))]  # fmt: skip
    comparison = comparison_of(*folders)
    assert {pair.different for pair in comparison.pairs} == {True, False}
    for pair in comparison.pairs:
        assert ("better" in conclusion(comparison, pair)) == pair.different
        shared = set(comparison.letters[pair.first]) & set(comparison.letters[pair.second])
        assert bool(shared) != pair.different
        assert "interval" in conclusion(comparison, pair) and "p " in conclusion(comparison, pair)
    order = [interval.estimate for interval in comparison.intervals]
    assert order == sorted(order, reverse=True)


def test_several_samples_are_tested_by_their_means(tmp_path):
    rng = np.random.default_rng(1)
    chance = rng.random(60)
    rows = [[[int(rng.random() < p + gain) for _ in range(4)] for p in chance] for gain in (0.25, 0.0)]
    comparison = comparison_of(*(run_of(tmp_path, name, part) for name, part in zip("AB", rows, strict=True)))
    [pair] = comparison.pairs
    assert pair.test == "score test of the same mean accuracy over problems" and pair.result.p_mcnemar is None
    assert "the first has the higher mean on" in conclusion(comparison, pair)
    table = tables.discordance(comparison)
    assert table.sum(axis=1).item() == 60 and "tied between" in table
    assert tables.power(comparison)["of it sampling noise %"].item() != ""
    assert tables.accuracy(comparison)["of"].tolist() == [240, 240]


# --- alignment ---


def test_only_common_scored_problems_are_compared(tmp_path):
    a = run_of(tmp_path / "a", "A", [1] * 6)
    b = run_of(tmp_path / "b", "B", [1, None, 0, 0])
    other = [*problems_of(2), dataclasses.replace(problems_of(3)[2], question="Another?"), problems_of(4)[3]]
    c = run_of(tmp_path / "c", "C", [0, 1, 1, 1], problems=other)
    comparison = comparison_of(a, b, c)
    assert [problem.id for problem in comparison.problems] == ["test-0000", "test-0003"]
    assert comparison.left_out == {
        "not in B and C": ["test-0004", "test-0005"],
        "a failed request in B": ["test-0001"],
        "another question or gold answer under the same id": ["test-0002"],
    }
    assert tables.left_out(comparison)["number"].tolist() == [1, 1, 2]
    by_name = {system.name: system.verdicts[:, 0].tolist() for system in comparison.systems}
    assert by_name == {"A": [1, 1], "B": [1, 0], "C": [0, 1]}


def test_runs_without_a_common_problem_are_refused(tmp_path):
    other = [Problem("test-0009", "Other?", "#### 5", Decimal(5))]
    with pytest.raises(ComparisonError, match="no problem in common .*not in B: 2"):
        comparison_of(run_of(tmp_path, "A", [1, 0]), run_of(tmp_path, "B", [1], problems=other))


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({}, [[1, 0]] * 4, "metric: 'test@1' (A), 'avg@2, T=0.7' (B); n_samples: 1 (A), 2 (B); temperature"),
        ({"headline_rule": "strict"}, [1] * 4, "headline_rule: 'flexible' (A), 'strict' (B)"),
        ({"max_new_tokens": 64}, [1] * 4, "max_new_tokens: 512 (A), 64 (B)"),
        ({"prompt": "wei_8shot"}, [1] * 4, "shots: 0 (A), 8 (B)"),
        ({"inputs": {"data_sha256": "1"}}, [1] * 4, "dataset sha256: '0' (A), '1' (B)"),
        ({"inputs": {"chat": True}}, [1] * 4, "chat: not stated (A), True (B)"),
    ],
    ids=["samples", "rule", "tokens", "prompt", "data", "chat"],
)
def test_unlike_runs_are_refused_and_the_field_is_named(tmp_path, options, rows, message):
    a = run_of(tmp_path / "a", "A", [1, 0, 1, 0], inputs={} if "inputs" in options else None)
    b = run_of(tmp_path / "b", "B", rows, **options)
    with pytest.raises(ComparisonError) as error:
        comparison_of(a, b)
    assert message in str(error.value) and "allow_unlike: true" in str(error.value)
    assert "\n" not in str(error.value)
    comparison = comparison_of(a, b, allow_unlike=True)
    assert comparison.unlike and comparison.pairs[0].unlike == tuple(comparison.unlike)


def test_every_table_of_unlike_runs_has_the_banner(tmp_path):
    a = run_of(tmp_path / "a", "A", [1, 0, 1, 0])
    b = run_of(tmp_path / "b", "B", [1, 1, 1, 0], max_new_tokens=64)
    comparison = comparison_of(a, b, allow_unlike=True, out_dir=str(tmp_path / "out"))
    shown = [comparing.show(comparison, name).data for name in tables.TABLES]
    shown += [comparing.show_figure(comparison, name).data for name in figures.FIGURES]
    shown += [comparing.show_conclusions(comparison).data, comparing.show_solved_by_one(comparison).data]
    assert len(shown) == 17
    for place, html in enumerate(shown):  # whole above the first, one short line above each of the others
        line = r"UNLIKE RUNS\. These differ in max_new_tokens: 64 \(B\), 512 \(A\)\. " if place == 0 else SHORT
        assert re.match(rf"<p style=[^>]+>{line}", html)
    comparing.save(comparison)
    for name in tables.TABLES:
        table = pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv")
        assert (table["unlike"] == "max_new_tokens").all(), name
    assert (tmp_path / "out" / "conclusions.md").read_text().startswith("UNLIKE RUNS. ")
    figure = figures.pairwise_matrix(comparison)
    assert figure.axes[0].get_title(loc="left").startswith("Unlike runs: max_new_tokens")
    alike = two_runs(tmp_path / "alike")
    assert "UNLIKE" not in comparing.show(alike, "pairs").data


def test_a_named_rule_reads_all_runs(tmp_path):
    a = run_of(tmp_path, "A", [1, 0], headline_rule="strict")
    b = run_of(tmp_path, "B", [1, 1], headline_rule="flexible")
    assert not comparison_of(a, b, rule="official").unlike
    with pytest.raises(ComparisonError, match="rule: 'nonsense' was not scored in .*; scored there: strict, flexible"):
        comparison_of(a, b, rule="nonsense")


@pytest.mark.parametrize("damage", ["doubled", "flipped", "swapped", "cut"])
@pytest.mark.parametrize("version", ["now", "0.1.0"])
def test_scores_that_are_not_of_the_metrics_are_refused(tmp_path, damage, version):
    """Version 0.1.0 recorded no hash: a swap of two verdicts that leaves the accuracy alone cannot be seen there."""
    folder, other = run_of(tmp_path, "A", [1, 0, 1, 1]), run_of(tmp_path, "B", [1, 1, 0, 1])
    file = Path(folder) / "scores.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    mine = [row for row in rows if row["rule"] == "flexible"]
    if damage == "doubled":
        rows.append(mine[0] | {"correct": not mine[0]["correct"]})
    elif damage == "flipped":
        mine[0]["correct"] = not mine[0]["correct"]
    elif damage == "swapped":
        mine[0]["correct"], mine[1]["correct"] = mine[1]["correct"], mine[0]["correct"]
    else:
        rows.remove(mine[0])
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if version == "0.1.0":
        values = json.loads((Path(folder) / "metrics.json").read_text())
        old = {name: value for name, value in values.items() if name not in ("made_from", "sha256")}
        (Path(folder) / "metrics.json").write_text(json.dumps(old))
        if damage == "swapped":
            return
    with pytest.raises((ComparisonError, RunError), match="run 03_score and .*04_report again"):
        comparison_of(folder, other)


# --- which runs ---


def test_runs_by_list_glob_folder_and_parameter_file(tmp_path, monkeypatch):
    folders = [run_of(tmp_path / "runs", name, [1, 0, 1]) for name in ("A", "B", "C")]
    (tmp_path / "runs" / "notes").mkdir()
    unfinished = tmp_path / "runs" / "begun"
    unfinished.mkdir()
    (unfinished / "config.json").write_text("{}")
    names = lambda text: [path.name for path in comparing.find_runs(text)[0]]  # noqa: E731
    all_three = sorted(folder.rsplit("/", 1)[-1] for folder in folders)
    assert names(f"{tmp_path}/runs/*") == all_three == names(f"{tmp_path}/runs")
    assert comparing.find_runs(f"{tmp_path}/runs/*")[1] == ["begun"]
    assert names(f"{folders[2]},{folders[0]}  {folders[0]}") == [all_three[2], all_three[0]]
    config = json.loads((tmp_path / "runs" / all_three[0] / "config.json").read_text())
    changed = {"model": config["model"], "outputs_dir": config["outputs_dir"]}
    (tmp_path / "a.yaml").write_text(json.dumps(changed))
    monkeypatch.chdir(tmp_path)
    assert names("a.yaml") == [all_three[0]]
    (tmp_path / "b.yaml").write_text("- a list")
    with pytest.raises(ComparisonError, match=r"runs: .*b\.yaml: must be a mapping of parameters, got list"):
        names("b.yaml")
    with pytest.raises(ComparisonError, match="no such file or folder: 'nowhere'"):
        comparing.find_runs("nowhere")
    with pytest.raises(ComparisonError, match="no finished run in"):
        comparing.find_runs(str(unfinished))
    with pytest.raises(ComparisonError, match="at least 2 finished runs"):
        load(CompareConfig(runs=folders[0]))


def test_names_are_told_apart(tmp_path):
    same = [run_of(tmp_path / "1", "org/M", [1, 0]), run_of(tmp_path / "2", "org/M", [[1, 0], [1, 1]])]
    comparison = comparison_of(*same, allow_unlike=True)
    assert {system.name for system in comparison.systems} == {"M (test@1, 0-shot CoT)", "M (avg@2, T=0.7, 0-shot CoT)"}
    twice = comparison_of(run_of(tmp_path / "3", "org/M", [1, 0], seed=1), same[0])
    assert len({system.name for system in twice.systems}) == 2


def test_a_label_names_a_system(tmp_path):
    """Two checkpoints that are both called ``final``; a label extends no run and starts none."""
    rows = [[1, 0], [1, 1]]
    folders = [
        run_of(tmp_path, f"{part}/final", row, label=part) for part, row in zip(("sft", "rl"), rows, strict=True)
    ]
    comparison = comparison_of(*folders)
    assert {system.name for system in comparison.systems} == {"sft", "rl"}
    again = run_of(tmp_path, "sft/final", [1, 0], label="SFT, epoch 3")
    assert again == folders[0]
    assert {system.name for system in comparison_of(again, folders[1]).systems} == {"SFT, epoch 3", "rl"}
    same = run_of(tmp_path, "rl/final", [1, 1], label="SFT, epoch 3")
    assert len({system.name for system in comparison_of(again, same).systems}) == 2
    unlabelled = [run_of(tmp_path / "1", f"{part}/final", row) for part, row in zip("ab", rows, strict=True)]
    assert all(system.name.startswith("final (") for system in comparison_of(*unlabelled).systems)


def test_parameters_are_checked():
    assert CompareConfig.checked({"runs": ["a", "b"]}).runs == "a\nb\n"  # a YAML list
    for values, message in [
        ({"allow_unlik": True}, "did you mean 'allow_unlike'"),
        ({"allow_unlike": "perhaps"}, "must be true or false"),
        ({"correction": "hom"}, "did you mean 'holm'"),
        ({"confidence": 95}, "confidence"),
        ({"runs": 3}, "must be text"),
    ]:
        with pytest.raises(ConfigError, match=message):
            CompareConfig.checked(values)


# --- tables and blocks ---


def test_discordance_agreement_and_solvers(tmp_path):
    comparison = two_runs(tmp_path)
    assert tables.discordance(comparison).iloc[0].tolist() == [30, 30, 10, 30]
    row = tables.agreement(comparison).iloc[0]
    chance = 0.6 * 0.4 + 0.4 * 0.6
    assert row["same verdict %"] == "60.0" and row["kappa"] == f"{(0.6 - chance) / (1 - chance):.2f}"
    assert row["pairs of wrong samples"] == 30 and row["same wrong answer %"] == "100.0"
    assert tables.only_one(comparison).loc["A"].tolist() == [60, 30, 10]
    assert len(tables.solved_by_one(comparison)) == 40
    matrix = tables.matrix(comparison)
    assert matrix.loc["A", "B"].startswith("+20.00* (p = 0.0022)")
    assert matrix.loc["B", "A"].startswith("\N{MINUS SIGN}20.00* (p = 0.0022)")


def test_same_wrong_answers_by_hand():
    def system(verdicts, predicted):
        matrix = np.array(verdicts, dtype=float)
        return comparing.System("x", None, "m", None, "strict", (), matrix, np.array(predicted, dtype=object))

    a = system([[0, 0], [1, 0]], [[Decimal(1), None], [Decimal(5), Decimal(2)]])
    b = system([[0, 0], [0, 0]], [[Decimal("1.0"), None], [Decimal(2), Decimal(3)]])
    assert tables.same_wrong_answers(a, b) == (2, 6)  # no answer is not the same answer


def test_the_level_is_said_as_it_was_asked_for(tmp_path):
    comparison = two_runs(tmp_path, confidence=0.995)
    assert "99.5% interval" in conclusion(comparison, comparison.pairs[0]) and comparison.alpha_level == "0.5%"
    assert "differ at 0.5%" in tables.pairs(comparison)


def test_a_finding_near_the_level_is_not_written_as_no_finding(tmp_path):
    """46 against 28 is p = 0.0475, 39 against 23 0.0558: 0.05 must not stand beside either."""
    for only_a, only_b, better in ((46, 28, True), (39, 23, False), (53, 34, False)):
        comparison = two_runs(tmp_path / str(only_a), only_a=only_a, only_b=only_b)
        [pair] = comparison.pairs
        text = conclusion(comparison, pair)
        assert pair.different == better == ("is better" in text) and "p = 0.050;" not in text
        shown = tables.pairs(comparison)
        assert (float(shown["p"].item()) < 0.05) == better and shown["95% interval"].item() in text


def test_no_conclusion_contradicts_its_interval(tmp_path):
    for only_a in range(3, 9):
        comparison = two_runs(tmp_path / str(only_a), both=50, only_a=only_a, only_b=0, neither=50 - only_a)
        [pair] = comparison.pairs
        assert pair.different == (pair.result.low > 0) == ("is better" in conclusion(comparison, pair)) == (only_a > 5)


def test_a_pair_that_the_correction_takes_back_is_explained(tmp_path):
    a, b, c = [1] * 100, [1] * 94 + [0] * 6, [1] * 99 + [0]
    folders = [run_of(tmp_path, name, rows) for name, rows in (("A", a), ("B", b), ("C", c))]
    comparison = comparison_of(*folders)
    taken_back = [pair for pair in comparison.pairs if pair.result.p <= 0.05 and not pair.different]
    assert taken_back and all(pair.result.low > 0 for pair in taken_back)
    for pair in comparison.pairs:
        explained = "The interval, which leaves out 0, is of this pair alone" in conclusion(comparison, pair)
        assert explained == (pair in taken_back)


def test_too_few_problems_are_said_to_be_too_few(tmp_path):
    comparison = two_runs(tmp_path, both=0, only_a=5, only_b=0, neither=0)
    assert conclusion(comparison, comparison.pairs[0]).startswith(
        "Too few problems to decide between A and B: +100.00 points"
    )
    comparison = two_runs(tmp_path / "six", both=0, only_a=6, only_b=0, neither=0)
    assert "A is better than B" in conclusion(comparison, comparison.pairs[0])


def test_one_sample_against_many_is_no_finding_by_chance(tmp_path):
    """All problems alike, 0.1: the sign-flip test finds a difference in half of such comparisons of 10 problems."""
    rng, better = np.random.default_rng(0), 0
    for place in range(12):
        rows = [(rng.random((10, n)) < 0.1).astype(int).tolist() for n in (1, 32)]
        folders = [run_of(tmp_path / str(place), name, part) for name, part in zip("AB", rows, strict=True)]
        comparison = comparison_of(*folders, allow_unlike=True)
        [pair] = comparison.pairs
        better += pair.different
        assert pair.different == (pair.result.low > 0 or pair.result.high < 0)
    assert better <= 2


def test_model_text_is_text_side_by_side(tmp_path):
    """Markup and mathematics of a completion are shown, never run."""
    a, b = run_of(tmp_path, "A<b>", [1, 0, 0, 1]), run_of(tmp_path, "B", [0, 0, 1, 1], wrong=HOSTILE)
    html = comparing.show_solved_by_one(comparison_of(a, b)).data
    assert "<script" not in html and "<img" not in html and "<b>:" not in html and "$" not in html
    assert "&lt;script&gt;alert(1)" in html and "Only B solves 1 problems" in html
    assert html.count("<pre") == 6  # a question and two texts for each of two problems


def test_figures_show_what_the_tables_say(tmp_path):
    comparison = two_runs(tmp_path, only_a=15, only_b=10)
    [bar] = figures.pairwise_differences(comparison).axes[0].containers
    assert bar.lines[0].get_xydata().tolist() == [[pytest.approx(100 * comparison.pairs[0].result.difference), 0.0]]
    assert bar.lines[0].get_markerfacecolor() == "white"  # open: no difference is shown
    texts = [text.get_text() for text in figures.pairwise_matrix(comparison).axes[0].texts]
    assert texts[0].startswith("+5.88\n0.42")
    assert [text.get_text() for text in figures.accuracy_of_systems(comparison).axes[0].texts] == ["A", "a", "B", "a"]


def many_runs(tmp_path, n, name="M{}", problems=24):
    rng = np.random.default_rng(n)
    rows = [(rng.random(problems) < chance).astype(int).tolist() for chance in np.linspace(0.1, 0.9, n)]
    return comparison_of(*(run_of(tmp_path, name.format(place), row) for place, row in enumerate(rows)))


LONG_NAMES = ("a very long label of a system, " * 8 + "{}", "x" * 190 + "{}")


@pytest.mark.parametrize(("n", "name"), [(2, "M{}"), (30, "M{}"), (12, LONG_NAMES[0]), (8, LONG_NAMES[1])])
def test_no_figure_is_larger_than_a_page(tmp_path, n, name):
    """30 runs have 435 pairs; every figure says what it leaves out, and all of it is in the tables."""
    comparison = many_runs(tmp_path, n, name)
    for make, _, _ in figures.FIGURES.values():
        figure = make(comparison)
        assert max(figure.get_size_inches()) <= figures.PAGE_IN
        files.figure_bytes(figure, "pdf")
    if n == 30:
        axes = figures.pairwise_differences(comparison).axes[0]
        assert re.search(r"The first \d+ of 435 pairs; all are\sin tables/pairs.csv", axes.get_title(loc="left"))
        assert figures.pairwise_matrix(comparison).axes[0].images[0].get_array().shape == (30, 30)
    assert len(tables.pairs(comparison)) == n * (n - 1) / 2


def test_a_single_run_is_shown_without_pairs(tmp_path):
    options = {"runs": run_of(tmp_path, "A", [1, 0, 1]), "out_dir": str(tmp_path / "out")}
    comparison = load(CompareConfig(**options), fewest=1)
    shown = [comparing.show(comparison, name).data for name in tables.TABLES]
    shown += [comparing.show_figure(comparison, name).data for name in figures.FIGURES]
    shown += [paper.show(comparison, name).data for name in ("accuracy", "pairs")]
    assert sum("A single run has no pair to" in html for html in shown) == 3
    saved = comparing.save(comparison).index
    assert "figures/accuracy_of_systems.pdf" in saved and not [name for name in saved if "pairwise" in name]


@pytest.mark.parametrize("show", [comparing.show, comparing.show_figure])
def test_an_unknown_name_is_told_with_the_known_ones(tmp_path, show):
    with pytest.raises(ValueError, match=r"unknown .* 'pair'; known: (systems|accuracy_of_systems), .*pair"):
        show(two_runs(tmp_path), "pair")


def test_the_refusal_of_many_runs_fits_a_screen(tmp_path):
    """The default ``outputs/*`` meets whatever lies there; the way out fits a notebook's cell and a parameter file."""
    lengths = (16, 32, 64, 128, 256, 512)
    options = [{"max_new_tokens": n, "prompt": name} for n in lengths for name in ("zero_shot", "wei_8shot")]
    folders = [run_of(tmp_path, f"org/A-model-with-a-long-name-{i}", [1, 0], **each) for i, each in enumerate(options)]
    with pytest.raises(ComparisonError) as error:
        comparison_of(*folders)
    text = str(error.value)
    assert len(text) < 1200 and "\n" not in text
    assert "prompt: 'zero_shot' (6 runs), 'wei_8shot' (6 runs)" in text and "and 2 more values" in text
    assert "in the parameters cell allow_unlike = True, in a parameter file allow_unlike: true" in text


HYPERLINK = '=HYPERLINK("http://x","y")'
MARKUP = "[a](http://x)|<img src=x onerror=y>*b*"


@pytest.mark.parametrize("field", ["model", "label"])
def test_names_act_in_no_file(tmp_path, field):
    """In CSV, Markdown and LaTeX, of the comparison and of the appendix."""
    rows = {HYPERLINK: [1] * 10 + [0] * 10, "@SUM(A1)": [1, 0] * 10, MARKUP: [0] * 20, "+1-2": [1, 1, 0, 0] * 5}
    folders = [
        run_of(tmp_path / str(i), **{"model": f"m{i}", field: name, "verdicts": row})
        for i, (name, row) in enumerate(rows.items())
    ]
    out = tmp_path / "out"
    comparison = comparison_of(*folders, out_dir=str(out))
    comparing.save(comparison)
    paper.save(comparison)
    sheets = list(out.rglob("*.csv"))
    assert {"solved_by_one.csv", "accuracy.csv", "pairs.csv"} <= {file.name for file in sheets}
    for file in sheets:
        with file.open(newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert not [cell for cell in cells if cell.startswith(tuple("=@")) or re.match(r"[+-]\d+[-+]", cell)], file
    for file in [out / "conclusions.md", *out.rglob("paper/*.md")]:
        assert not re.search(r"(?<!\\)<img|(?<!\\)\[a\]|(?<!\\)\*b", file.read_text()), file
    for file in out.rglob("*.tex"):
        assert "<img" not in file.read_text(), file


# --- the notebook ---


def test_a_vote_of_8_is_not_a_single_answer(tmp_path):
    """The acceptance of comparing maj@8 with test@1: plain papermill exits non-zero and names the field."""
    a = run_of(tmp_path, "A", [1, 0, 1, 0])
    b = run_of(tmp_path, "B", [[1] * 8, [0] * 8, [1] * 8, [0, 1] * 4])
    out = tmp_path / "out"
    done = papermill("compare", tmp_path / "out.ipynb", "-r", "runs", f"{a} {b}", "-r", "out_dir", str(out))
    last = [line for line in done.stderr.strip().splitlines() if line.strip()][-1]
    assert done.returncode != 0 and last.startswith("ComparisonError: runs: these differ in metric: 'test@1' (A), ")
    assert "n_samples: 1 (A), 8 (B)" in last and not out.exists()


def test_compare_runs_through_papermill(tmp_path):
    a, b = run_of(tmp_path, "A", [1, 0, 1, 0] * 9), run_of(tmp_path, "B", [1, 1, 1, 0] * 9, wrong=HOSTILE)
    out = tmp_path / "out"
    done = papermill("compare", tmp_path / "out.ipynb", "-r", "runs", f"{a},{b}", "-r", "out_dir", str(out))
    assert done.returncode == 0, done.stderr[-3000:]
    assert (out / "tables" / "pairs.csv").exists() and (out / "figures" / "pairwise_matrix.pdf").exists()
    assert "B is better than A" in (out / "conclusions.md").read_text()
    outputs = json.dumps([cell.get("outputs") for cell in json.loads((tmp_path / "out.ipynb").read_text())["cells"]])
    assert "<script" not in outputs and "UNLIKE" not in outputs
    done = papermill("compare", tmp_path / "out.ipynb", "-r", "run", a)  # which papermill itself only warns of
    assert done.returncode != 0 and "unknown parameter 'run': did you mean 'runs'?" in done.stderr
