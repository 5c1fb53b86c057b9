"""lm-evaluation-harness, since 0.4.0: samples of a task, and the ``results_TIME.json`` that it writes beside them.

A row is one problem under one filter; a task with two filters has two rows a problem, with the same texts:

    {"doc_id": 0, "doc": {"question": "..."}, "arguments": {"gen_args_0": {"arg_0": "Q: ...", "arg_1": {...}}},
     "resps": [[" She sells ... The answer is 18."]], "filter": "strict-match", "exact_match": 1.0, ...}

Up to 0.4.6 a row does not name its filter: it is told by its turn. Up to 0.4.2 the arguments are a list, and the rows
one JSON list. A filter that lets the texts vote (``maj@8``) says nothing of a single text: its verdict is of the vote.
"""

import re
from datetime import UTC, datetime
from typing import Any

from gsm8k_nb.logs.files import Row, Source, pick
from gsm8k_nb.logs.log import LogError, verdicts

_RULES = {  # a filter's pattern and which of its matches it takes -> the rule that repeats it
    (r"#### (\-?[0-9\.\,]+)", 0): "lm_eval_strict",
    (r"The answer is (\-?[0-9\.\,]+).", 0): "lm_eval_cot_strict",
    (r"The final answer is ((-?[$0-9.,]{2,})|(-?[0-9]+))", -1): "lm_eval_llama_strict",
    (r"(-?[$0-9.,]{2,})|(-?[0-9]+)", -1): "lm_eval_flexible",
}
_CHAT_SERVERS = ("local-chat-completions", "openai-chat-completions", "anthropic-chat-completions")
_NO_SCORES = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}


def by_problem(source: Source) -> list[Row]:
    """One row a problem from its rows of all filters. LogError where the file holds more than one run or task."""
    _complete(source.results)
    filters = _filters(source)
    by_doc: dict[Any, list[Row]] = {}
    for row in source.rows:
        if not {"doc_id", "doc", "resps", "arguments"} <= set(row):
            raise LogError(f"{source.name}: a row is no sample of lm-eval, it has the keys {', '.join(row)}")
        by_doc.setdefault(row["doc_id"], []).append(row)
    return [_problem(rows, filters, source.name) for rows in by_doc.values()]


def _complete(results: Row) -> None:
    """Names for what stands in the results file under the task's name, or as a text of several things."""
    configs, torch = (
        results.get("configs") or {},
        re.search(r"PyTorch version: (\S+)", str(results.get("pretty_env_info"))),
    )
    results["task"] = next(iter(configs)) if len(configs) == 1 else results.get("task")
    results["n_problems"] = pick(results, f"n-samples.{results['task']}.effective")
    if isinstance(results.get("date"), int | float):
        results["time"] = datetime.fromtimestamp(results["date"], UTC).isoformat(timespec="seconds")
    packages = {"transformers": results.get("transformers_version"), "torch": torch[1] if torch else None}
    results["packages"] = {name: version for name, version in packages.items() if version}


def _filters(source: Source) -> dict[str, list[Row]]:
    """The steps of each filter of the task by its name, in their order; empty where the results file is not there."""
    filters = pick(source.results, f"configs.{source.results.get('task')}.filter_list") or []
    return {steps["name"]: steps.get("filter") or [] for steps in filters}


def _problem(rows: list[Row], filters: dict[str, list[Row]], name: str) -> Row:
    first, scorers = rows[0], list(filters)
    prompt, settings = _arguments(first)
    problem: Row = {
        "doc_id": first["doc_id"],
        "question": pick(first, "doc.question") or prompt,
        "gold": first.get("target"),
        "texts": first["resps"],
        "settings": settings,
        "verdicts": {},
        "votes": {},
    }
    seen = set()
    for turn, row in enumerate(rows):
        scorer = row.get("filter") or (scorers[turn] if turn < len(scorers) else f"filter {turn + 1}")
        if scorer in seen or row["resps"] != first["resps"] or row["doc"] != first["doc"] or 0 < len(scorers) <= turn:
            raise LogError(
                f"{name}: holds several runs or tasks, doc_id {row['doc_id']} stands twice under filter {scorer!r}; "
                "split it into a file for each"
            )
        seen.add(scorer)
        size = _voters(scorer, filters.get(scorer), len(first["resps"][0]) if first["resps"] else 0)
        for right in verdicts({scorer: _score(row)}).values():
            problem["votes" if size else "verdicts"][scorer] = (size, right) if size else right
    return problem


def _score(row: Row) -> Any:
    """The exact match, or the row's first metric: by its name since 0.4.7, before it the one key that is not known."""
    names = row.get("metrics") or [key for key in row if key not in _NO_SCORES and not key.endswith("_hash")]
    return row.get("exact_match", row.get(names[0]) if names else None)


def _voters(scorer: str, steps: list[Row] | None, n: int) -> int:
    """How many texts vote under a filter; 0 where it reads one text alone. Without its steps, its name tells."""
    if steps is None:
        return int(scorer[4:]) if re.fullmatch(r"maj@\d+", scorer) else 0
    if not any(step.get("function") == "majority_vote" for step in steps):
        return 0
    return next((step["k"] for step in steps if step.get("function") == "take_first_k"), n)


def _arguments(row: Row) -> tuple[Any, Any]:
    """Prompt and settings of a row; 0.4.2, and rows that were kept in memory, have them as a list."""
    arguments = row["arguments"]
    if isinstance(arguments, list):
        pair = arguments[0] if arguments and isinstance(arguments[0], list) else arguments
        return (*pair, None, None)[:2]
    return pick(arguments, "gen_args_0.arg_0"), pick(arguments, "gen_args_0.arg_1")


def rules(source: Source) -> dict[str, str]:
    """The rule that repeats each filter, by its pattern; ``flexible-extract`` has the same one in all tasks."""
    known = {} if "configs" in source.results else {"flexible-extract": "lm_eval_flexible"}
    for name, steps in _filters(source).items():
        patterns = [(step["regex_pattern"], step.get("group_select", 0)) for step in steps if "regex_pattern" in step]
        if len(patterns) == 1 and patterns[0] in _RULES:
            known[name] = _RULES[patterns[0]]
    return known


def facts(source: Source) -> dict[str, Any]:
    """Number of exemplars, and whether and how they were put as turns of a chat, as far as the results file says."""
    results = source.results
    shots = pick(results, f"n-shot.{results.get('task')}")
    stated: dict[str, Any] = {"shots": shots} if type(shots) is int else {}
    if "chat_template" not in results:
        return stated
    turns = results.get("fewshot_as_multiturn") is True
    if results["chat_template"] or pick(results, "model_source|config.model") in _CHAT_SERVERS:
        return stated | {"chat": True, "exemplars_as": "turns" if turns else "text"}
    if turns:  # refused without a chat until 0.4.8, and since then the default even of plain prompts
        return stated if "lm_eval_version" in results else stated | {"chat": True, "exemplars_as": "turns"}
    return stated | {"chat": False, "exemplars_as": "text"}
