"""Results in, table out: each function returns one DataFrame, ready to show and to save as CSV and LaTeX."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from gsm8k_nb import metrics, mistakes, summary
from gsm8k_nb.answers import RULES
from gsm8k_nb.config import SOURCES_OWN, RunConfig
from gsm8k_nb.data import Dataset
from gsm8k_nb.places import own_table
from gsm8k_nb.prompts import PromptFormat
from gsm8k_nb.reporting import or_failure, published
from gsm8k_nb.reporting.making import facts
from gsm8k_nb.reporting.making import made_with as made_with
from gsm8k_nb.sampling import Sampled
from gsm8k_nb.sampling.costs import Plan
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import WARN_ABOVE, Results
from gsm8k_nb.texts import interval, percent


def show_in_full() -> None:
    """Let this session's tables show whole texts and all rows, and dollar signs as what they are.

    Otherwise pandas cuts cells at 50 characters, and MathJax takes what stands between two prices for a formula.
    """
    pd.set_option("display.max_colwidth", None, "display.max_rows", None, "display.html.use_mathjax", False)


def parameters(config: RunConfig) -> pd.DataFrame:
    """Every parameter with its value and its line of help; a value that is not the default is starred.

    How stored completions were made is their source's to say, whatever value such a parameter has here.
    """
    theirs = SOURCES_OWN if config.sampler == "replay" else set()
    values = config.model_dump() | dict.fromkeys(theirs, "its source's")
    changed = config.model_dump(exclude_defaults=True).keys() - theirs
    fields = RunConfig.model_fields.items()
    rows = [(name, str(values[name]), "*" if name in changed else "", field.description) for name, field in fields]
    return pd.DataFrame(rows, columns=["parameter", "value", "changed", "meaning"]).set_index("parameter")


def dataset(data: Dataset, n_problems: int) -> pd.DataFrame:
    """Where the problems came from, and whether they are the published ones."""
    same = "is the published one" if data.verified else "differs from the published one: unverified"
    checked = "of the bundled file" if data.name == "classroom" else same
    return facts(
        {
            "data set": f"{data.label} ({data.config}, {data.split})",
            "source": data.source,
            "problems": f"{n_problems} of {len(data.problems)}",
            "sha256": f"{data.sha256[:16]}... ({checked})",
        }
    )


def prompt(form: PromptFormat) -> pd.DataFrame:
    """The prompt format: what it asks for, what cuts it, and its exemplars."""
    if form.name == "as_stored":
        return facts({"prompt": "its source's: unknown here, unless the source is a run folder, which states it"})
    return facts(
        {
            "prompt": form.name,
            "source": form.source,
            "exemplars": ", ".join(shot.id for shot in form.exemplars) or "none",
            "stop strings (plain text only)": ", ".join(map(repr, form.stop)) or "none",
            "answer pattern": form.answer_pattern,
            "sha256": form.sha256[:16] + "...",
        }
    )


def sampled(done: Sampled) -> pd.DataFrame:
    """What the sampling step found on disk and what it added."""
    return facts(asdict(done))


def plan(asked: Plan) -> pd.DataFrame:
    """What is about to be asked, and what it may cost at most, before anything is sent."""
    values: dict[str, Any] = {
        "samples to ask for": f"{asked.samples:,}",
        "on disk already": f"{asked.on_disk:,}",
        "prompt tokens, about": f"{asked.prompt_tokens:,}",
        "completion tokens, at most": f"{asked.completion_tokens:,}",
    }
    if asked.cost is not None:
        estimated = f" ({asked.uncounted:,} samples estimated: not counted by the server)" if asked.uncounted else ""
        values |= {"cost so far": f"{asked.spent:.4f}{estimated}", "further cost, at most about": f"{asked.cost:.4f}"}
    return facts(values)


@or_failure
def accuracy(results: Results) -> pd.DataFrame:
    """Accuracy under strict, flexible and the headline's rule, in percent, with its interval and how that was made."""
    table = _rules(results).drop(columns="how it reads")
    table = table.loc[[name for name in table.index if name in (*DEFAULT_RULES, results.headline_rule)]]
    return table.rename({results.headline_rule: f"{results.headline_rule} (headline)"})


@or_failure
def by_rule(results: Results) -> pd.DataFrame:
    """Accuracy under every rule that was scored, over the same completions: what another tool would have reported."""
    return _rules(results).drop(columns=["of", "standard error", "method"])


def _rules(results: Results) -> pd.DataFrame:
    rows = [
        {
            "rule": name,
            "right": values["correct"],
            "of": values["n"],
            "accuracy %": _percent(values["accuracy"]),
            _level(results): _interval(values["ci_low"], values["ci_high"]),
            "standard error": _percent(values["standard_error"]),
            "no number": values["no_answer"],
            "method": values["interval"],
            "how it reads": RULES[name].description,
        }
        for name, values in results.metrics["rules"].items()
    ]
    return pd.DataFrame(rows).set_index("rule")


def _level(results: Results) -> str:
    return f"{100 * results.config.confidence:g}% interval"


@or_failure
def disagreements(results: Results) -> pd.DataFrame:
    """The extractor matrix: on how many completions each pair of rules gives another verdict."""
    verdict = verdict_by_rule(results)
    counts = {a: {b: int((verdict[a] != verdict[b]).sum()) for b in verdict} for a in verdict}
    return pd.DataFrame(counts, index=list(verdict)).rename_axis("rule")


@or_failure
def disagreeing_samples(results: Results) -> pd.DataFrame:
    """Every completion on which not all rules agree: what each rule read, with its verdict, and the text."""
    verdict = verdict_by_rule(results)
    rows = results.frame.set_index(SAMPLE)
    rows = rows[rows.index.isin(verdict.index[verdict.nunique(axis=1) > 1])]
    verdicts = rows["correct"].map({True: " (right)", False: " (wrong)"})
    rows = rows.assign(reading=rows["predicted"].fillna("none") + verdicts)
    readings = rows.reset_index().pivot(index=SAMPLE, columns="rule", values="reading").reindex(columns=list(verdict))
    about = rows[~rows.index.duplicated()]
    return about[["gold"]].join(readings).join(about[["text"]])


def verdict_by_rule(results: Results) -> pd.DataFrame:
    """Verdicts of the scored completions, (problem_id, sample_index) by rule, in the order of the rules."""
    rows = results.frame.dropna(subset=["correct"])
    wide = rows.pivot(index=SAMPLE, columns="rule", values="correct")
    return wide[[name for name in results.metrics["rules"] if name in wide]].astype(bool)


@or_failure
def error_kinds(results: Results) -> pd.DataFrame:
    """What is wrong in the wrong answers, as far as a program can tell: counts, examples and measured precision."""
    table = mistakes.error_table(results.errors)
    table["share"] = table["share"].map(_percent)
    return table.rename(columns={"share": "share %", "precision": "labels right when checked"}).set_index("kind")


@or_failure
def rules_crossed(results: Results) -> pd.DataFrame:
    """How ``strict`` and ``flexible`` agree, sample by sample: counts of each pair of verdicts."""
    strict, flexible = (
        results.of_rule(rule).set_index(SAMPLE)["correct"].map({True: f"{rule} right", False: f"{rule} wrong"})
        for rule in ("strict", "flexible")
    )
    counts = pd.crosstab(strict, flexible).reindex(["strict right", "strict wrong"], fill_value=0)
    counts = counts.reindex(columns=["flexible right", "flexible wrong"], fill_value=0)
    return counts.rename_axis(index="samples", columns=None)


@or_failure
def health(results: Results) -> pd.DataFrame:
    """Counts and shares of what can go wrong in a run, with a plain warning above 1%."""
    return pd.DataFrame(_checks(results)).set_index("check")


def _checks(results: Results) -> list[dict[str, Any]]:
    health, replayed = results.metrics["health"], results.config.sampler == "replay"
    rows = []
    for name, check in _CHECKS.items():
        count, note = health[check["key"]], "not recorded by the source"
        share = "" if count is None else f"{count / health['requested']:.1%}"
        if count is not None:
            advice = check.get("of_a_replay" if replayed else "advice", check["advice"])
            note = f"above {WARN_ABOVE:.0%}: {advice}" if count / health["requested"] > WARN_ABOVE else ""
        rows.append({"check": name, "samples": "" if count is None else count, "share": share, "note": note})
    return rows


@or_failure
def by_steps(results: Results) -> pd.DataFrame:
    """Accuracy under the headline rule by the number of steps of the gold solution, with intervals."""
    rows = [
        (row.steps, row.problems, _percent(row.accuracy), _interval(row.low, row.high))
        for row in summary.by_steps(results).itertuples()
    ]
    return pd.DataFrame(rows, columns=["steps", "problems", "accuracy %", _level(results)]).set_index("steps")


@or_failure
def by_tokens(results: Results) -> pd.DataFrame:
    """Accuracy by the tokens that each completion may spend, made from the texts that are there; in percent."""
    table = 100 * summary.by_tokens(results).set_index("tokens")
    table.columns = ["finished", "none of the others right", "all of the others right", "right of the finished"]
    return table.map(lambda share: "" if np.isnan(share) else f"{share:.2f}").add_suffix(" %")


@or_failure
def tokens(results: Results) -> pd.DataFrame:
    """How many tokens the reasoning and the rest of a completion have; empty where none has reasoning apart."""
    rows = results.of_rule().dropna(subset=["completion_tokens", "reasoning_tokens"])
    thought, whole = rows["reasoning_tokens"].astype(float), rows["completion_tokens"].astype(float)
    parts = pd.DataFrame({"reasoning": thought, "answer and marks": whole - thought, "whole": whole})
    return parts.agg(["mean", "median", "max"]).T.round(1).rename_axis("tokens of") if len(rows) else pd.DataFrame()


@or_failure
def at_k(results: Results) -> pd.DataFrame:
    """pass@k, maj@k and pass^k in percent with intervals, for powers of two up to N and N itself."""
    ends, columns = results.metrics["intervals_at_k"], {}
    index = pd.Index([int(k) for k in ends.get("pass_at_k", {})], name="k")
    for name, title in (("pass_at_k", "pass@k"), ("maj_at_k", "maj@k"), ("pass_hat_k", "pass^k")):
        columns[f"{title} %"] = [_percent(results.metrics[name].get(str(k))) for k in index]
        columns[f"{title} interval"] = [_interval(*ends[name].get(str(k), (None, None))) for k in index]
    return pd.DataFrame(columns, index=index)


@or_failure
def beside_published(results: Results) -> pd.DataFrame:
    """Published results of this run's protocol, and whether each is inside its interval; empty where there is none."""
    return published.beside(results.metrics, results.config.model).set_index("model")


def warnings(results: Results) -> list[str]:
    """One plain sentence for each fault of the run that a reader must know before the accuracy."""
    lines = [
        f"{row['check']}: {row['samples']} samples ({row['share']}), {row['note']}"
        for row in _checks(results)
        if row["note"].startswith("above")
    ]
    for rule, rows in results.frame.dropna(subset=["failure"]).groupby("rule", sort=False):
        first = rows.iloc[0]
        lines.append(
            f"The rule {rule} failed on {len(rows)} samples, read as no answer; the first is {first['problem_id']}, "
            f"sample {first['sample_index']}: {first['failure']}"
        )
    verdicts = summary.verdicts(results.of_rule(), results.config.n_samples)
    if failed := int(np.isnan(verdicts).sum()):
        worst, best = metrics.bounds(verdicts)
        lines.append(
            f"Problems with a failed request are left out. Over all {verdicts.size} samples the accuracy is between "
            f"{_percent(worst)}% and {_percent(best)}%, counting the {failed} failed ones wrong or right."
        )
    if not results.metrics["dataset"]["complete"]:
        lines.append("This is not a complete run of the official test split; do not quote it as a GSM8K result.")
    share = results.metrics["health"]["identical_problems"]
    if share is not None and share > 0.5:
        lines.append(
            f"All samples are byte-identical in {share:.0%} of the problems: pass@k and maj@k say no more than one."
        )
    return lines


SAMPLE = ["problem_id", "sample_index"]  # what names one completion
_CHECKS = own_table("health.toml")  # by name: its key in metrics.json, and what to do about it


def _percent(share: float | None) -> str:
    return "" if share is None else percent(share)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else interval(low, high)
