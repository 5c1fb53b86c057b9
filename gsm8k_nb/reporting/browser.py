"""The sample browser's data: every problem with its completions, as one JSON text to stand inside a page.

    {"rules": ["strict", "flexible"], "headline": "flexible", "samples": 10552, "left_out": 0, "cut": 0,
     "problems": [{"id": "test-0000", "question": "Janet's ...", "steps": ["Janet sells 16 - 3 - 4 = 9 ...", "She ..."],
                   "gold": "18", "samples": [{"i": 0, "text": "She sells 9 ... #### 18", "finish": "stop",
                                              "tokens": 64, "read": ["18", "18"], "right": "11"}]}]}

``right`` has a character for each rule: 1 right, 0 wrong, - unscored. Model text is data: whatever in it could end the
script element, or act on a reader's screen, is spelt so that it cannot, see ``script_json`` and ``visible``.
"""

import json
from typing import Any

from gsm8k_nb.answers.calculator import without_annotations
from gsm8k_nb.records import Problem
from gsm8k_nb.summary import Results
from gsm8k_nb.texts import visible

BUDGET = 24_000_000  # bytes of JSON of samples in one report: a browser opens a page of that size in about a second
CUT_AT = 20_000  # characters kept of a longer text where the budget is short: its beginning and its end
READ_AT_MOST = 60  # characters shown of an answer as read: a rule may read a number of a thousand digits


def script_json(value: Any) -> str:
    """``value`` as JSON for a ``<script type="application/json">``: without ``<``, so that nothing in it is markup."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def browser_data(results: Results, budget: int = BUDGET) -> dict[str, Any]:
    """The run's problems and samples for the browser, samples of at most ``budget`` bytes of JSON.

    Where they are more, long texts lose their middle; where that is not enough, samples with high indices are left
    out, so that problems keep alike many. ``cut`` and ``left_out`` count the samples that either befell.
    """
    samples = _samples(results)
    fits = sum(map(_size, samples.values())) <= budget
    long = [] if fits else [sample for sample in samples.values() if len(sample["text"]) > CUT_AT]
    for sample in long:
        text, half = sample["text"], CUT_AT // 2
        note = f"[{len(text) - CUT_AT:,} characters are left out here: the whole text is in samples.jsonl]"
        sample["text"] = f"{text[:half]}\n\n{note}\n\n{text[-half:]}"
    kept: dict[str, list[dict[str, Any]]] = {problem.id: [] for problem in results.problems}
    by_index = sorted(samples.items(), key=lambda item: item[0][1])  # stable: in the problems' order at each index
    for (problem_id, _), sample in by_index:
        budget -= _size(sample)
        if budget >= 0:
            kept[problem_id].append(sample)
    return {
        "rules": list(results.metrics["rules"]),
        "headline": results.headline_rule,
        "samples": len(samples),
        "left_out": len(samples) - sum(map(len, kept.values())),
        "cut": len(long),
        "problems": [_problem(problem) | {"samples": kept[problem.id]} for problem in results.problems],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    lines = visible(without_annotations(problem.solution)).split("\n")
    steps = [line for line in lines if line.strip() and not line.startswith("####")]
    names = {"id": visible(problem.id), "question": visible(problem.question)}
    return names | {"steps": steps, "gold": str(problem.answer)}


def _samples(results: Results) -> dict[tuple[str, int], dict[str, Any]]:
    """The samples by (problem id, index), each with what every rule read and its verdict, in the rules' order."""
    samples: dict[tuple[str, int], dict[str, Any]] = {}
    for row in results.frame.astype(object).where(results.frame.notna(), None).itertuples():
        sample = samples.setdefault((row.problem_id, row.sample_index), {})
        if not sample:
            about = {"finish": row.finish_reason, "error": row.error}
            sample |= {"i": row.sample_index, "text": visible(row.text or "")}
            sample |= {name: visible(str(value)) for name, value in about.items() if value is not None}
            sample |= {} if row.completion_tokens is None else {"tokens": int(row.completion_tokens)}
            sample |= {"read": [], "right": ""}
            if row.reasoning:
                sample["text"] = f"[reasoning]\n{visible(row.reasoning)}\n[text]\n{sample['text']}"
        long = row.predicted is not None and len(row.predicted) > READ_AT_MOST
        sample["read"].append(f"{row.predicted[: READ_AT_MOST - 1]}…" if long else row.predicted)
        sample["right"] += "-" if row.correct is None else "01"[bool(row.correct)]
    return samples


def _size(sample: dict[str, Any]) -> int:
    return len(script_json(sample).encode())
