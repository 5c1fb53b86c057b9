"""The results of a run: one tidy frame, and ``metrics.json`` made from it.

    {"headline": "gsm8k acc (test@1, 8-shot CoT) = 0.0213", "dataset": {...}, "protocol": {...},
     "rules": {"strict": {"n": 1319, "correct": 28, "accuracy": 0.0212, "ci_low": ..., ...}, ...}, ...}

Every number is computed from the files of the run folder alone, so the same files give the same ``metrics.json``.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from gsm8k_nb import metrics, mistakes, stats
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import HUB_ID, HUB_REVISION, N_TEST
from gsm8k_nb.mistakes import ErrorReport
from gsm8k_nb.protocol import Facts, Protocol, headline_rule, made_by, protocol_of
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Inputs, Run
from gsm8k_nb.scoring import StaleScores, basis_of, frame, score_all, score_run, stored_scores, wanted_samples
from gsm8k_nb.texts import degenerate

WARN_ABOVE = 0.01  # a share of truncated, empty, unread or failed completions above this is a fault of the run


class DatasetFacts(Facts):
    """What was scored; ``complete`` is the whole official test split, every problem scored."""

    name: str
    config: str
    split: str
    source: str
    revision: str | None
    sha256: str
    n_problems: int
    n_total: int
    n_scored: int  # problems whose samples were all scored
    complete: bool


class RuleScore(Facts):
    """The accuracy under one rule, as a share, over the problems whose samples were all scored; None where none was."""

    n: int
    n_problems: int
    correct: int
    accuracy: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    standard_error: float | None = None
    interval: str | None = None  # the method's name
    no_answer: int
    rule_failed: int = 0  # samples on which the rule could not be applied


class Health(Facts):
    """Counts of what went wrong, in samples; ``no_marker`` are answers not in the form that the prompt asks for."""

    requested: int
    failed: int
    truncated: int | None  # None where the source does not say how its texts ended
    no_answer: int
    no_marker: int | None
    empty: int
    degenerate: int
    identical_problems: float | None
    thought_cut: int = 0  # the token limit came before the thought's end, so there is no answer


class Metrics(Facts):
    """The content of ``metrics.json``; keys of ``*_at_k`` are k as text."""

    headline: str
    accuracy: float | None = None  # the headline's first number
    dataset: DatasetFacts
    protocol: Protocol
    rules: dict[str, RuleScore]
    pass_at_k: dict[str, float] = {}
    maj_at_k: dict[str, float] = {}
    pass_hat_k: dict[str, float] = {}
    test_at_n: float | None = None
    intervals_at_k: dict[str, dict[str, list[float]]] = {}
    errors: dict[str, int]  # each wrong sample's primary kind
    health: Health
    made_from: dict[str, Any] | None = None  # hashes of samples and scores, and the rules' version; see scoring


@dataclass(frozen=True)
class Results:
    """All that tables, figures and the report need of one run."""

    run: Run
    config: RunConfig
    inputs: Inputs
    problems: list[Problem]
    frame: pd.DataFrame
    metrics: Metrics
    errors: list[ErrorReport]  # of every wrong sample under the headline rule

    @property
    def headline_rule(self) -> str:
        return self.metrics.protocol.headline_rule

    @property
    def headline(self) -> str:
        return self.metrics.headline

    def of_rule(self, rule: str | None = None) -> pd.DataFrame:
        """The frame's rows of one rule, the headline's unless named."""
        return self.frame[self.frame["rule"] == (rule or self.headline_rule)]

    def verdicts(self, rule: str | None = None) -> np.ndarray:
        """Verdicts (problems, samples) of one rule, 1 right, 0 wrong; a problem with a failed request is left out."""
        return scored(self.of_rule(rule), self.config.n_samples)


def summarise(run: Run, config: RunConfig) -> Results:
    """The results of a run, ``metrics.json`` written. Scores that are not of its samples are made anew (it says so)."""
    try:
        results = read_results(run, config)
    except StaleScores as stale:
        print(f"{str(stale).partition(': ')[0]}: scored anew")
        score_run(run, config, run.read_records("problems.jsonl", Problem))
        results = read_results(run, config)
    if run.read_json("metrics.json") != results.metrics.model_dump():
        run.update_manifest()  # tables and figures of other numbers may lie there
        run.write_json("metrics.json", results.metrics.model_dump())
    return results


def read_results(run: Run, config: RunConfig) -> Results:
    """The results of a scored run; nothing is written. StaleScores where its scores are not of its samples."""
    problems = run.read_records("problems.jsonl", Problem)
    samples = wanted_samples(run, config, problems)
    inputs, basis = run.inputs(), basis_of(run, config, problems, samples)
    made = run.read_json("manifest.json")  # lacking where nothing was sampled, as in a dry run: no verdict to look up
    scores = stored_scores(run, basis) if made else score_all(problems, samples, basis["rules"])
    table = frame(problems, samples, scores, run.folder.name)
    reports = error_reports(problems, table[table["rule"] == headline_rule(config, inputs)])
    values = compute_metrics(config, inputs, problems, table, reports)
    values = values.model_copy(update={"made_from": made.get("scored", {})})
    return Results(run, config, inputs, problems, table, values, reports)


def compute_metrics(
    config: RunConfig, inputs: Inputs, problems: Sequence[Problem], table: pd.DataFrame, reports: Sequence[ErrorReport]
) -> Metrics:
    """The content of ``metrics.json``; pure."""
    protocol, form = protocol_of(config, inputs), made_by(config, inputs).config.form
    by_rule = {str(name): rows for name, rows in table.groupby("rule", sort=False)}
    rules = {name: _rule_score(rows, config) for name, rows in by_rule.items()}
    head, headed = by_rule[protocol.headline_rule], rules[protocol.headline_rule]
    dataset = _dataset(config, inputs, len(problems), headed.n_problems)
    # Of texts that say nothing of their prompt nobody knows in what form an answer was asked for.
    health = _health(head, None if form.name == "as_stored" else form.answer_pattern)
    numbers = by_each_rule(rules, protocol.headline_rule)
    if (cut := health.thought_cut) and headed.accuracy is not None:  # how many, and what they can move
        numbers += f"; {cut} of {headed.n} thoughts cut, with all of them right {headed.accuracy + cut / headed.n:.4f}"
    return Metrics(
        headline=headline(dataset, protocol.label, numbers),
        accuracy=headed.accuracy,
        dataset=dataset,
        protocol=protocol,
        rules=rules,
        errors=dict(Counter(report.kind for report in reports)),
        health=health,
        **at_k(head, problems, config),
    )


def by_tokens(results: Results) -> pd.DataFrame:
    """Accuracy under the headline rule by tokens spent: what each limit on a completion would have left of these texts.

    Columns: tokens (powers of two, and the most that a text has), finished (the share that ends by then), low and high
    (if none or all of the others were right), accuracy (of the finished alone). Empty where tokens are not known.
    """
    rows = results.of_rule()
    rows = rows[rows["correct"].notna()]
    if not len(rows) or rows["completion_tokens"].isna().any():
        return pd.DataFrame(columns=["tokens", "finished", "low", "high", "accuracy"])
    tokens, correct = rows["completion_tokens"].to_numpy(dtype=int), rows["correct"].to_numpy(dtype=bool)
    powers = 2 ** np.arange(4, 20)
    limits = np.append(powers[powers < tokens.max()], tokens.max())
    done = (rows["finish_reason"] != "length").to_numpy() & (tokens <= limits[:, None])  # (limits, samples)
    table = pd.DataFrame({"tokens": limits, "finished": done.mean(axis=1), "low": (done & correct).mean(axis=1)})
    return table.assign(high=table["low"] + 1 - table["finished"], accuracy=table["low"] / table["finished"])


def by_each_rule(rules: Mapping[str, RuleScore], first: str) -> str:
    """The accuracy by rule, ``first`` and then ours: ``0.5417 flexible, 0.0208 strict (####)``."""
    names = [name for name in dict.fromkeys((first, "flexible", "strict")) if name in rules]
    numbers = {name: "undefined" if (value := rules[name].accuracy) is None else f"{value:.4f}" for name in names}
    return ", ".join(f"{numbers[name]} {name}" + (" (####)" if name == "strict" else "") for name in names)


def headline(dataset: DatasetFacts, label: str, numbers: str) -> str:
    """The one line to quote, of both readings. Only a complete official test split is called ``gsm8k acc``."""
    if dataset.complete:
        return f"gsm8k acc ({label}) = {numbers}"
    count = f"{dataset.n_scored} of {dataset.n_total} problems"
    if dataset.name == "gsm8k":
        return f"gsm8k subset acc ({label}, {count}) = {numbers}"
    note = ", the bundled teaching set, not GSM8K" if dataset.name == "classroom" else ", not the official file"
    return f"{dataset.name} acc ({label}, {count}{note}) = {numbers}"


def verdicts(rows: pd.DataFrame, n_samples: int) -> np.ndarray:
    """Verdicts of one rule as (problems, samples): 1 right, 0 wrong, NaN for a failed request."""
    return rows["correct"].to_numpy(dtype=float).reshape(-1, n_samples)


def scored(rows: pd.DataFrame, n_samples: int) -> np.ndarray:
    """Of these, the problems whose samples were all scored: a failed request is no verdict, so its problem waits."""
    matrix = verdicts(rows, n_samples)
    return matrix[~np.isnan(matrix).any(axis=1)]


def _rule_score(rows: pd.DataFrame, config: RunConfig) -> RuleScore:
    known = scored(rows, config.n_samples)
    facts: dict[str, Any] = {"n": known.size, "n_problems": len(known), "correct": int(known.sum())}
    if len(known):
        of = _interval(known, config)
        facts |= {"accuracy": of.estimate, "ci_low": of.low, "ci_high": of.high}
        facts |= {"standard_error": of.standard_error, "interval": of.method}
    return RuleScore(no_answer=int(_unread(rows).sum()), rule_failed=int(rows["failure"].notna().sum()), **facts)


def by_steps(results: Results) -> pd.DataFrame:
    """Accuracy under the headline rule for each number of gold steps: steps, problems, accuracy, low, high (shares)."""
    scores = {number: _rule_score(group, results.config) for number, group in results.of_rule().groupby("steps")}
    rows = [(number, of.n_problems, of.accuracy, of.ci_low, of.ci_high) for number, of in scores.items() if of.n]
    return pd.DataFrame(rows, columns=["steps", "problems", "accuracy", "low", "high"])


def _interval(known: np.ndarray, config: RunConfig) -> stats.Interval:
    how: dict[str, Any] = {name: getattr(config, name) for name in ("confidence", "n_resamples", "seed")}
    return stats.accuracy_interval(known, **how)


def _unread(rows: pd.DataFrame) -> pd.Series:
    return rows["predicted"].isna() & rows["error"].isna()


def _health(rows: pd.DataFrame, answer_pattern: str | None) -> Health:
    texts, answered, reasons = rows["text"].fillna(""), rows["error"].isna(), rows["finish_reason"]
    marked, blank = texts.map(lambda text: bool(re.search(answer_pattern or "", text))), texts.str.strip() == ""
    by_problem = [list(group) for _, group in rows.groupby("problem_id", sort=False)["text"]]
    return Health(
        requested=len(rows),
        failed=int((~answered).sum()),
        truncated=int((reasons == "length").sum()) if reasons.notna().any() else None,
        no_answer=int(_unread(rows).sum()),
        no_marker=None if answer_pattern is None else int((answered & ~marked).sum()),
        empty=int((answered & blank).sum()),
        degenerate=int(texts.map(degenerate).sum()),
        identical_problems=metrics.identical_samples(by_problem),
        thought_cut=int((answered & blank & (reasons == "length") & (rows["reasoning"].fillna("") != "")).sum()),
    )


def _dataset(config: RunConfig, inputs: Inputs, n: int, n_scored: int) -> DatasetFacts:
    official = config.dataset == "gsm8k" and inputs.data_verified
    source = inputs.data_source or ""
    return DatasetFacts(
        name=inputs.data_label,
        config=config.dataset_config,
        split=config.split,
        source=source,
        revision=HUB_REVISION if source.startswith(HUB_ID) else None,
        sha256=inputs.data_sha256,
        n_problems=n,
        n_total=inputs.data_problems,
        n_scored=n_scored,
        complete=bool(official and n == N_TEST and n_scored == n),
    )


def at_k(rows: pd.DataFrame, problems: Sequence[Problem], config: RunConfig) -> dict[str, Any]:
    """Metrics over k from the one pool of N samples a problem, each the mean over problems, keyed by k as text.

    See ``metrics`` for ``pass_at_k``, ``maj_at_k`` (k >= 2) and ``pass_hat_k``; ``test_at_n`` is any of the N right
    (Cobbe et al. 2021). A problem with a sample that was not scored is left out; where none is left, all are empty.
    """
    whole = rows[~rows["problem_id"].isin(rows.loc[rows["correct"].isna(), "problem_id"])]
    if not len(whole):
        return {}
    n = config.n_samples
    matrix = verdicts(whole, n).astype(bool)  # no NaN is left, which would be True
    golds = {problem.id: problem.answer for problem in problems}
    answers = whole["predicted"].to_numpy().reshape(matrix.shape).tolist()
    curves = {
        "pass_at_k": metrics.pass_curve(matrix),
        "maj_at_k": metrics.maj_curve(answers, [golds[name] for name in whole["problem_id"].iloc[::n]]),
        "pass_hat_k": metrics.pass_hat_curve(matrix),
    }
    made: dict[str, Any] = {name: {} for name in curves}
    ends: dict[str, dict[str, list[float]]] = {name: {} for name in curves}
    for name, curve in curves.items():
        means = curve.mean(axis=0).tolist()
        for k in range(2 if name == "maj_at_k" else 1, n + 1):  # a vote of one is no vote
            made[name][str(k)] = means[k - 1]
            if k & (k - 1) == 0 or k == n:  # those that tables show
                interval = _interval(curve[:, k - 1], config)
                ends[name][str(k)] = [interval.low, interval.high]
    return made | {"test_at_n": float(matrix.any(axis=1).mean()), "intervals_at_k": ends}


def error_reports(problems: Sequence[Problem], rows: pd.DataFrame) -> list[ErrorReport]:
    """The error analysis of every wrong sample among one rule's rows."""
    by_id = {problem.id: problem for problem in problems}
    wrong = rows[rows["correct"].map(lambda verdict: verdict is False)]
    return [
        mistakes.classify(
            by_id[row.problem_id],
            Sample(row.problem_id, row.sample_index, row.text or "", row.finish_reason),
            None if row.predicted is None else Decimal(row.predicted),
        )
        for row in wrong.itertuples()
    ]
