"""Published GSM8K results, each with its source, and a run beside those of its own protocol.

    model,organisation,params_b,shots,exemplars,method,prompt,metric,n_samples,temperature,top_k,accuracy,source_metric,source,year
    PaLM 540B,Google,540,8,wei,cot,Wei et al. 8-shot CoT,test@1,1,0,,56.9,solve rate,arXiv:2201.11903 Table 2 ...,2022

In ``assets/published.csv`` an empty field is one that the source does not state; ``prompt`` and ``source_metric`` are
its own words, ``exemplars``, ``method`` and ``metric`` the same in the words of this package.
"""

import io
import re
from functools import cache
from typing import Any

import pandas as pd

from gsm8k_nb.config import short_name
from gsm8k_nb.formats import FORMATS
from gsm8k_nb.places import own_asset
from gsm8k_nb.summary import Metrics

FIELDS = ("shots", "exemplars", "method", "metric", "n_samples", "temperature", "top_k")
COLUMNS = ["model", "same model", "prompt", "metric", "published %", "this run %", "interval", "verdict", "source"]


@cache
def load() -> pd.DataFrame:
    """All rows, as text; an empty text is a field that the source does not state."""
    return pd.read_csv(io.StringIO(own_asset("published.csv")), dtype=str, keep_default_na=False)


def beside(metrics: Metrics | dict[str, Any], model: str) -> pd.DataFrame:
    """The published rows that one run (its ``metrics.json`` and model name) may be read beside; columns ``COLUMNS``.

    A row of the same protocol in every field is ``inside`` or ``outside`` the run's interval. A row of the same model
    in which nothing stated differs but something is not stated is shown as ``protocol not stated`` with the fields, and
    not judged. Rows of another protocol are not shown. Rows of the run's own model come first, then by their place in
    the file: never by accuracy. Empty for anything but a complete run of the official test split.
    """
    rows = []
    for values in measured(metrics) if metrics["dataset"]["complete"] else ():
        accuracy, low, high = (100 * share for share in values["accuracy"])
        for row in load().to_dict("records"):
            same_model, published = _plain(row["model"]) == _plain(short_name(model)), float(row["accuracy"])
            unstated = unstated_fields(values, row)
            if unstated is None or (unstated and not same_model):
                continue
            outside = f"outside the interval, {'above' if published > high else 'below'}"
            verdict = "inside the interval" if low <= published <= high else outside
            if unstated:
                verdict = f"protocol not stated ({', '.join(unstated)})"
            stated = (row["model"], "yes" if same_model else "", row["prompt"], row["metric"], row["accuracy"])
            own = (f"{accuracy:.2f}", f"{low:.2f} to {high:.2f}")
            rows.append((*stated, *own, verdict, f"{row['source']} ({row['year']})"))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.sort_values("same model", ascending=False, kind="stable").reset_index(drop=True)


def measured(metrics: Metrics | dict[str, Any]) -> list[dict[str, Any]]:
    """What a run measured that a published row may state too: its accuracy, and maj@N of its N samples.

    Each with the protocol fields as text, and ``accuracy``: the share and the ends of its interval.
    """
    protocol = metrics["protocol"]
    known = {name: protocol.get(name) for name in ("shots", "n_samples", "temperature", "top_k")}
    form = FORMATS.get(protocol["prompt"])
    known["exemplars"], known["method"] = (form and form.family) or (None, None)
    if known["temperature"] and known["top_k"] is None:
        known["top_k"] = "none"  # a temperature makes top-k matter: all tokens were open; a greedy run has no top-k
    fields = {
        name: "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in known.items()
    }
    rule, n = metrics["rules"][protocol["headline_rule"]], str(protocol["n_samples"])
    made = {protocol["metric"]: (rule["accuracy"], rule["ci_low"], rule["ci_high"])}
    if n in metrics["maj_at_k"]:
        made[f"maj@{n}"] = (metrics["maj_at_k"][n], *metrics["intervals_at_k"]["maj_at_k"][n])
    return [fields | {"metric": metric, "accuracy": shares} for metric, shares in made.items()]


def unstated_fields(values: dict[str, Any], row: dict[str, str]) -> list[str] | None:
    """The fields that the run or the row leaves open; None where a field that both state differs.

    A run whose protocol is only a label, such as a replay of released solutions, is the same where the label is, and
    names the method: many protocols are a ``test@1``.
    """
    if values["metric"] != row["metric"]:
        return None
    if not values["method"] and row["method"] and row["metric"].startswith(row["method"]):
        return []
    greedy = "0" in (values["temperature"], row["temperature"])
    names = [name for name in FIELDS if not (name == "top_k" and greedy)]
    if any(values[name] and row[name] and values[name] != row[name] for name in names):
        return None
    return [name for name in names if not values[name] or not row[name]]


def _plain(name: str) -> str:
    """A model's name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
