"""The results of a run: one tidy frame, and ``metrics.json`` made from it.

    {"headline": "gsm8k acc (test@1, 8-shot CoT) = 0.0213", "dataset": {...}, "protocol": {...},
     "rules": {"strict": {"n": 1319, "correct": 28, "accuracy": 0.0212, "ci_low": ..., ...}, ...},
     "pass_at_k": {"1": ...}, "maj_at_k": {...}, "health": {"requested": 1319, "failed": 0, ...}}

Every number is computed from the files of the run folder alone, so the same files give the same ``metrics.json``.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from gsm8k_nb import metrics, stats
from gsm8k_nb import mistakes as errors
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import HUB_ID, HUB_REVISION, N_TEST
from gsm8k_nb.prompts import FORMATS
from gsm8k_nb.records import Problem, Sample, Score
from gsm8k_nb.runs import Run, RunError
from gsm8k_nb.sampling import smoke
from gsm8k_nb.scoring import frame, rules_to_score, score_all

NOT_ASKED = "not asked for: a dry run, or the budget was spent"
WARN_ABOVE = 0.01  # a share of truncated, empty, unread or failed completions above this is a fault of the run


@dataclass(frozen=True)
class Results:
    """All that tables, figures and the report need of one run."""

    run: Run
    config: RunConfig
    inputs: dict[str, Any]
    problems: list[Problem]
    frame: pd.DataFrame
    metrics: dict[str, Any]
    errors: list[errors.ErrorReport]  # of every wrong sample under the headline rule

    @property
    def headline_rule(self) -> str:
        return self.metrics["protocol"]["headline_rule"]

    @property
    def headline(self) -> str:
        return self.metrics["headline"]

    def of_rule(self, rule: str | None = None) -> pd.DataFrame:
        """The frame's rows of one rule, the headline's unless named."""
        return self.frame[self.frame["rule"] == (rule or self.headline_rule)]


def score_run(run: Run, config: RunConfig, problems: Sequence[Problem]) -> list[Score]:
    """Score every sample that the parameters ask for and write ``scores.jsonl``. The texts are never touched."""
    check_problems(run, config, problems)
    samples = wanted_samples(run, config, problems)
    inputs = run.read_json("config.json").get("inputs", {})
    rules = rules_to_score(config.rules, headline_rule(config, inputs), len(samples))
    scores = score_all(problems, samples, rules)
    run.write_records("scores.jsonl", scores)
    return scores


def wanted_samples(run: Run, config: RunConfig, problems: Sequence[Problem]) -> list[Sample]:
    """The run's samples for these parameters, in order. RunError where some were never asked for.

    A dry run, or one that a budget ended, has samples that were not asked for on purpose: they count as failed.
    """
    found = run.journal().samples
    wanted = [(problem.id, index) for problem in problems for index in range(config.n_samples)]
    missing = [key for key in wanted if key not in found]
    if missing and not config.dry_run and config.budget is None:
        raise RunError(f"{run.folder.name} lacks {len(missing)} of {len(wanted)} samples: run 02_sample first")
    return [found.get(key) or Sample(*key, text=None, error=NOT_ASKED) for key in wanted]


def check_problems(run: Run, config: RunConfig, problems: Sequence[Problem]) -> None:
    """RunError where the stored problems were chosen by another limit than the parameters'."""
    stored = run.read_json("config.json")
    if (stored.get("limit"), stored.get("shuffle")) == (config.limit, config.shuffle):
        return
    total = stored["inputs"]["data_problems"]
    wanted = total if config.limit is None else min(config.limit, total)
    if len(problems) != wanted:
        raise RunError(
            f"{run.folder.name}/problems.jsonl has {len(problems)} problems, these parameters ask for {wanted}: "
            "run 01_load and the steps after it again"
        )


def check_scores(run: Run, samples: Sequence[Sample], scores: Sequence[Score], rule: str) -> None:
    """RunError where the stored scores are not of these samples, or not by the rule of the headline."""
    asked = {(sample.problem_id, sample.sample_index) for sample in samples}
    if {(score.problem_id, score.sample_index) for score in scores if score.rule == rule} != asked:
        raise RunError(
            f"{run.folder.name}/scores.jsonl does not score these {len(samples)} samples by {rule!r}: "
            "run 03_score again with the same parameters"
        )


def summarise(run: Run, config: RunConfig) -> Results:
    """Read the run folder, compute ``metrics.json`` and write it."""
    problems = run.read_records("problems.jsonl", Problem)
    samples = wanted_samples(run, config, problems)
    check_problems(run, config, problems)
    scores = run.read_records("scores.jsonl", Score)
    inputs = run.read_json("config.json")["inputs"]
    check_scores(run, samples, scores, headline_rule(config, inputs))
    table = frame(problems, samples, scores, run.folder.name)
    reports = error_reports(problems, table[table["rule"] == headline_rule(config, inputs)])
    values = compute_metrics(config, inputs, problems, table, reports)
    run.write_json("metrics.json", values)
    return Results(run, config, inputs, problems, table, values, reports)


def compute_metrics(
    config: RunConfig,
    inputs: dict[str, Any],
    problems: Sequence[Problem],
    table: pd.DataFrame,
    reports: Sequence[errors.ErrorReport],
) -> dict[str, Any]:
    """The content of ``metrics.json``; pure."""
    rule = headline_rule(config, inputs)
    matrices = {name: verdicts(rows, config.n_samples) for name, rows in table.groupby("rule", sort=False)}
    rules = {name: _accuracy(matrix, config) for name, matrix in matrices.items()}
    for name in rules:
        rules[name]["no_answer"] = int(_unread(table[table["rule"] == name]).sum())
        rules[name]["rule_failed"] = int(table.loc[table["rule"] == name, "failure"].notna().sum())
    prompt = made_by(config, inputs)[1].prompt
    pattern = None if prompt == "as_stored" else FORMATS[prompt].answer_pattern  # None: nobody knows what was asked for
    health = _health(table[table["rule"] == rule], config, len(problems), pattern)
    dataset = _dataset(config, inputs, len(problems), rules[rule]["n_problems"])
    protocol = protocol_of(config, inputs, rule)
    curves = at_k(table[table["rule"] == rule], problems, config)
    values = {
        "dataset": dataset,
        "protocol": protocol,
        "rules": rules,
        "pass_at_k": curves["pass_at_k"],
        "maj_at_k": curves["maj_at_k"],
        "pass_hat_k": curves["pass_hat_k"],
        "test_at_n": curves["test_at_n"],
        "intervals_at_k": curves["intervals"],
        "errors": dict(Counter(report.kind for report in reports)),  # each wrong sample's primary kind
        "health": health,
    }
    return {"headline": headline(values)} | values


def headline(values: dict[str, Any]) -> str:
    """The one line to quote. Only a complete official test split is called ``gsm8k acc``."""
    dataset, protocol = values["dataset"], values["protocol"]
    accuracy = values["rules"][protocol["headline_rule"]]["accuracy"]
    number = "undefined" if accuracy is None else f"{accuracy:.4f}"
    if dataset["complete"]:
        return f"gsm8k acc ({protocol['label']}) = {number}"
    done, total = dataset["n_scored"], dataset["n_total"]
    count = f"{done} of {total} problems"
    if dataset["name"] == "gsm8k":
        return f"gsm8k subset acc ({protocol['label']}, {count}) = {number}"
    note = ", the bundled teaching set, not GSM8K" if dataset["name"] == "classroom" else ", not the official file"
    return f"{dataset['name']} acc ({protocol['label']}, {count}{note}) = {number}"


def headline_rule(config: RunConfig, inputs: dict[str, Any]) -> str:
    """The rule that ``auto`` stands for: ``strict`` where the prompt asks for ``####``, else ``flexible``."""
    if config.headline_rule != "auto":
        return config.headline_rule
    return "strict" if FORMATS[made_by(config, inputs)[1].prompt].marked else "flexible"


def made_by(config: RunConfig, inputs: dict[str, Any]) -> tuple[str | None, RunConfig, dict[str, Any]]:
    """Who made the texts: a stated label or None, the parameters they were made with, and the inputs of that run.

    A replay has the protocol of its source, and a replay of a replay that of the first.
    """
    label, made = config.protocol_label, config
    while source := inputs.get("replay_config"):
        made = RunConfig.checked({key: source[key] for key in RunConfig.model_fields if key in source})
        label, inputs = label or made.protocol_label, source.get("inputs") or {}
    return label, made, inputs


def protocol_of(config: RunConfig, inputs: dict[str, Any], rule: str) -> dict[str, Any]:
    """Every field that names the protocol; two runs are alike where these are equal.

    Where the protocol was stated, the only fields known are those that an imported log states too.
    """
    label, made, inputs = made_by(config, inputs)
    known = inputs.get("stated", {}) if label else made.model_dump() | {"shots": made.n_shots}
    return {
        "label": label or protocol_label(made, config.n_samples),
        "metric": label or _metric(made, config.n_samples),
        "shots": known.get("shots"),
        "n_samples": config.n_samples,
        **{name: known.get(name) for name in ("prompt", "temperature", "top_p", "top_k", "max_new_tokens")},
        "chat": inputs.get("chat"),
        "exemplars_as": inputs.get("exemplars_as"),
        "stop": inputs.get("stop"),
        "prompt_sha256": None if label else inputs.get("prompt_sha256"),
        "headline_rule": rule,
    }


def protocol_label(config: RunConfig, n_samples: int) -> str:
    """How a headline states the protocol, as in ``test@1, 8-shot CoT``."""
    return f"{_metric(config, n_samples)}, {config.n_shots}-shot CoT"


def _metric(config: RunConfig, n_samples: int) -> str:
    """``test@1`` is one greedy sample (Cobbe et al. 2021); anything drawn at random is a mean over N, at its T."""
    if config.temperature == 0:
        return "test@1"
    return f"avg@{n_samples}, T={config.temperature:g}"


def verdicts(rows: pd.DataFrame, n_samples: int) -> np.ndarray:
    """Verdicts of one rule as (problems, samples): 1 right, 0 wrong, NaN for a failed request."""
    values = pd.to_numeric(rows["correct"].map({True: 1.0, False: 0.0}), errors="coerce").to_numpy(dtype=float)
    return values.reshape(-1, n_samples)


def _complete_rows(matrix: np.ndarray) -> np.ndarray:
    """The problems whose samples were all scored: a failed request is no verdict, so its problem waits for it."""
    return matrix[~np.isnan(matrix).any(axis=1)]


def _accuracy(matrix: np.ndarray, config: RunConfig) -> dict[str, Any]:
    scored = _complete_rows(matrix)
    counts = {"n": int(scored.size), "n_problems": len(scored), "correct": int(scored.sum())}
    if not len(scored):
        return counts | dict.fromkeys(("accuracy", "ci_low", "ci_high", "standard_error", "interval"))
    interval = _interval(scored, config)
    return counts | {
        "accuracy": float(interval.estimate),
        "ci_low": float(interval.low),
        "ci_high": float(interval.high),
        "standard_error": float(interval.standard_error),
        "interval": interval.method,
    }


def by_steps(results: Results) -> pd.DataFrame:
    """Accuracy under the headline rule for each number of gold steps: steps, problems, accuracy, low, high (shares)."""
    rows = []
    for number, group in results.of_rule().groupby("steps"):
        scored = _complete_rows(verdicts(group, results.config.n_samples))
        if len(scored):
            interval = _interval(scored, results.config)
            rows.append((number, len(scored), interval.estimate, interval.low, interval.high))
    return pd.DataFrame(rows, columns=["steps", "problems", "accuracy", "low", "high"])


def _interval(scored: np.ndarray, config: RunConfig) -> stats.Interval:
    return stats.accuracy_interval(
        scored if scored.shape[1] > 1 else scored[:, 0],
        confidence=config.confidence,
        n_resamples=config.n_resamples,
        seed=config.seed,
    )


def _unread(rows: pd.DataFrame) -> pd.Series:
    return rows["predicted"].isna() & rows["error"].isna()


def _health(rows: pd.DataFrame, config: RunConfig, n_problems: int, answer_pattern: str | None) -> dict[str, Any]:
    """Counts of what went wrong, in samples; ``no_marker`` are answers not in the form that the prompt asks for."""
    texts = rows["text"].fillna("")
    answered = rows["error"].isna()
    pattern = re.compile(answer_pattern or "")
    marked = texts.map(lambda text: bool(pattern.search(text)))
    by_problem = [list(group) for _, group in rows.groupby("problem_id", sort=False)["text"]]
    return {
        "requested": n_problems * config.n_samples,
        "failed": int((~answered).sum()),
        # None where the source does not say how its texts ended
        "truncated": int((rows["finish_reason"] == "length").sum()) if rows["finish_reason"].notna().any() else None,
        "no_answer": int(_unread(rows).sum()),
        "no_marker": None if answer_pattern is None else int((answered & ~marked).sum()),
        "empty": int((answered & (texts.str.strip() == "")).sum()),
        "degenerate": int(texts.map(smoke.degenerate).sum()),  # traps.md 2.29
        "identical_problems": float(metrics.identical_samples(by_problem)) if config.n_samples > 1 else None,
    }


def _dataset(config: RunConfig, inputs: dict[str, Any], n: int, n_scored: int) -> dict[str, Any]:
    official = config.dataset == "gsm8k" and inputs["data_verified"]
    return {
        "name": inputs["data_label"],
        "config": config.dataset_config,
        "split": config.split,
        "source": inputs["data_source"],
        "revision": HUB_REVISION if inputs["data_source"].startswith(HUB_ID) else None,
        "sha256": inputs["data_sha256"],
        "n_problems": n,
        "n_total": inputs["data_problems"],
        "n_scored": n_scored,  # problems whose samples were all scored
        "complete": bool(official and n == N_TEST and n_scored == n),
    }


def at_k(rows: pd.DataFrame, problems: Sequence[Problem], config: RunConfig) -> dict[str, Any]:
    """Metrics over k from the one pool of N samples a problem, each the mean over problems, keyed by k as text.

    ``pass_at_k``: at least one of k right, unbiased (Chen et al. 2021, eq. 1). ``maj_at_k``: the most frequent answer
    of k right, expected over k-subsets and ties (Wang et al. 2022), k >= 2. ``pass_hat_k``: all k right. ``test_at_n``:
    any of the N right, the older estimate (Cobbe et al. 2021). ``intervals`` resample problems.
    A problem with a failed request is left out; where none is left, all are empty.
    """
    whole = rows[~rows["problem_id"].isin(rows.loc[rows["error"].notna(), "problem_id"])]
    if not len(whole):
        return {"pass_at_k": {}, "maj_at_k": {}, "pass_hat_k": {}, "test_at_n": None, "intervals": {}}
    matrix = verdicts(whole, config.n_samples).astype(bool)
    golds = {problem.id: problem.answer for problem in problems}
    ids = whole["problem_id"].to_numpy()[:: config.n_samples]
    answers = whole["predicted"].to_numpy().reshape(matrix.shape)
    answers = [[None if pd.isna(answer) else answer for answer in row] for row in answers]
    curves = {
        "pass_at_k": metrics.pass_curve(matrix),
        "maj_at_k": metrics.maj_curve(answers, [golds[name] for name in ids]),
        "pass_hat_k": metrics.pass_hat_curve(matrix),
    }
    means = {name: {str(k): float(v) for k, v in enumerate(c.mean(axis=0), 1)} for name, c in curves.items()}
    del means["maj_at_k"]["1"]  # a vote of one is no vote
    shown = [k for k in range(1, config.n_samples + 1) if k & (k - 1) == 0 or k == config.n_samples]  # for tables
    intervals = {
        name: {str(k): _ends(_interval(curve[:, [k - 1]], config)) for k in shown if str(k) in means[name]}
        for name, curve in curves.items()
    }
    return means | {"test_at_n": float(matrix.any(axis=1).mean()), "intervals": intervals}


def _ends(interval: stats.Interval) -> list[float]:
    return [float(interval.low), float(interval.high)]


def error_reports(problems: Sequence[Problem], rows: pd.DataFrame) -> list[errors.ErrorReport]:
    """The error analysis of every wrong sample among one rule's rows."""
    by_id = {problem.id: problem for problem in problems}
    wrong = rows[rows["correct"].map(lambda verdict: verdict is False)]
    return [
        errors.classify(
            by_id[row.problem_id],
            Sample(row.problem_id, row.sample_index, _or_none(row.text) or "", _or_none(row.finish_reason)),
            None if _or_none(row.predicted) is None else Decimal(row.predicted),
        )
        for row in wrong.itertuples()
    ]


def _or_none(value: Any) -> Any:
    return None if pd.isna(value) else value
