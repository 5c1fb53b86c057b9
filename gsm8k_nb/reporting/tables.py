"""Results in, table out: each function returns one DataFrame, ready to show and to save as CSV and LaTeX."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Template

from gsm8k_nb import metrics, mistakes, summary, texts
from gsm8k_nb.answers import RULES
from gsm8k_nb.config import SOURCES_OWN, RunConfig
from gsm8k_nb.data import Dataset
from gsm8k_nb.places import own_asset, own_table
from gsm8k_nb.prompts import PromptFormat
from gsm8k_nb.protocol import Source, made_by
from gsm8k_nb.reporting import or_failure, published
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import Sampled
from gsm8k_nb.sampling.costs import Plan
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import WARN_ABOVE, Results
from gsm8k_nb.texts import interval, one_line, percent


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
    return facts(_told("dataset", data, n_problems))


def prompt(form: PromptFormat) -> pd.DataFrame:
    """The prompt format: what it asks for, what cuts it, and its exemplars."""
    return facts(_told("prompt", form))


def sampled(done: Sampled) -> pd.DataFrame:
    """What the sampling step found on disk and what it added."""
    return facts(asdict(done))


def plan(asked: Plan) -> pd.DataFrame:
    """What is about to be asked, and what it may cost at most, before anything is sent."""
    return facts(_told("plan", asked))


def made_with(run: Run) -> pd.DataFrame:
    """How the samples came about, from the manifest: engine, code, machine, sessions.

    Of samples that others made it says where they came from: when, where and by which packages they were read in here
    is no fact about them.
    """
    manifest = run.read_json("manifest.json")
    engine = {name: value for name, value in manifest.get("engine", {}).items() if name not in _NO_FACTS}
    if run.read_json("config.json").get("sampler") == "replay":
        known = {"engine": "replay", "made": "elsewhere; what is not stated here, only the source can say"}
        return facts(known | {"source": "not recorded"} | (source_of(run).inputs.log or {}) | engine)
    return facts(engine | code_of(manifest.get("environment", {})) | _told("made", manifest))


def code_of(environment: dict[str, Any]) -> dict[str, Any]:
    """Commit, Python and packages of a manifest's environment."""
    return _told("code", environment) | {"packages": environment.get("packages")}


def source_of(run: Run) -> Source:
    """Who made a run's texts, as `made_by` says it."""
    return made_by(RunConfig.stored(run.read_json("config.json")), run.inputs())


def facts(values: dict[str, Any]) -> pd.DataFrame:
    """A two-column table of named facts; what is not known has no row."""
    known = {name.replace("_", " "): _plain(value) for name, value in values.items() if value not in (None, "", [], {})}
    return pd.DataFrame({"value": known})


def _told(name: str, *about: Any) -> dict[str, Any]:
    """The facts of this name in ``assets/facts.jinja``."""
    return texts.facts(getattr(Template(own_asset("facts.jinja")).module, name)(*about))


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items() if each is not None)
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)


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
    scores = pd.DataFrame.from_dict(
        {name: dict(score) for name, score in results.metrics.rules.items()}, orient="index"
    )
    scores = scores.rename(columns={"correct": "right", "n": "of", "ci_low": "low", "ci_high": "high"})
    table = accuracy_table(scores, _level(results))
    table.insert(5, "no number", scores["no_answer"])
    return table.assign(**{"how it reads": [RULES[name].description for name in table.index]}).rename_axis("rule")


def accuracy_table(scores: pd.DataFrame, level: str) -> pd.DataFrame:
    """Accuracies for a reader, in percent, from shares: right, of, accuracy, low, high, standard_error, interval."""
    return pd.DataFrame(
        {
            "right": scores["right"],
            "of": scores["of"],
            "accuracy %": scores["accuracy"].map(percent),
            level: list(map(interval, scores["low"], scores["high"])),
            "standard error": scores["standard_error"].map(percent),
            "method": scores["interval"],
        }
    )


def _level(results: Results) -> str:
    return f"{100 * results.config.confidence:g}% interval"


@or_failure
def disagreements(results: Results) -> pd.DataFrame:
    """The extractor matrix: on how many completions each pair of rules gives another verdict."""
    verdict = verdict_by_rule(results)
    return pd.DataFrame({rule: verdict.ne(verdict[rule], axis=0).sum() for rule in verdict}).rename_axis("rule")


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
    table["share"] = table["share"].map(percent)
    return table.rename(columns={"share": "share %", "precision": "labels right when checked"}).set_index("kind")


@or_failure
def rules_crossed(results: Results) -> pd.DataFrame:
    """How ``strict`` and ``flexible`` agree, sample by sample: counts of each pair of verdicts."""
    strict, flexible = (
        results.of_rule(rule).set_index(SAMPLE)["correct"].map({True: f"{rule} right", False: f"{rule} wrong"})
        for rule in ("strict", "flexible")
    )
    sides = {"index": ["strict right", "strict wrong"], "columns": ["flexible right", "flexible wrong"]}
    return pd.crosstab(strict, flexible).reindex(**sides, fill_value=0).rename_axis(index="samples", columns=None)


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
        (row.steps, row.problems, percent(row.accuracy), interval(row.low, row.high))
        for row in summary.by_steps(results).itertuples()
    ]
    return pd.DataFrame(rows, columns=["steps", "problems", "accuracy %", _level(results)]).set_index("steps")


@or_failure
def by_tokens(results: Results) -> pd.DataFrame:
    """Accuracy by the tokens that each completion may spend, made from the texts that are there; in percent."""
    table = summary.by_tokens(results).set_index("tokens")
    table.columns = ["finished", "none of the others right", "all of the others right", "right of the finished"]
    return table.map(percent).add_suffix(" %")


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
        columns[f"{title} %"] = [percent(results.metrics[name].get(str(k))) for k in index]
        columns[f"{title} interval"] = [interval(*ends[name].get(str(k), (None, None))) for k in index]
    return pd.DataFrame(columns, index=index)


@or_failure
def beside_published(results: Results) -> pd.DataFrame:
    """Published results of this run's protocol, and whether each is inside its interval; empty where there is none."""
    return published.beside(results.metrics, results.config.model).set_index("model")


def warnings(results: Results) -> list[str]:
    """One plain sentence for each fault of the run that a reader must know before the accuracy."""
    failures = results.frame.dropna(subset=["failure"]).groupby("rule", sort=False)
    verdicts = summary.verdicts(results.of_rule(), results.config.n_samples)
    said = Template(own_asset("warnings.jinja")).render(
        metrics=results.metrics,
        checks=_checks(results),
        failures=[(rule, len(rows), rows.iloc[0]) for rule, rows in failures],
        verdicts=verdicts,
        n_failed=np.isnan(verdicts).sum(),
        bounds=metrics.bounds(verdicts),
        percent=percent,
        one_line=one_line,
    )
    return [one_line(line) for line in said.split("\n\n") if line.strip()]


SAMPLE = ["problem_id", "sample_index"]  # what names one completion
_NO_FACTS = ("source_config", "stored", "stated")  # of an engine: stated elsewhere
_CHECKS = own_table("health.toml")  # by name: its key in metrics.json, and what to do about it
