"""What the formats in ``assets/logs.toml`` cannot say as data: each function completes a source of one tool.

lm-evaluation-harness writes a row for each problem and filter, ``{"doc_id": 0, "resps": [["... The answer is 18."]],
"filter": "strict-match", "exact_match": 1.0, ...}``; up to 0.4.6 without the filter's name, which is told by its turn.
A filter that lets the texts vote (``maj@8``) says nothing of a single text.
"""

import ast
import re
from datetime import UTC, datetime
from typing import Any

from gsm8k_nb.logs.files import FORMATS, LogError, Row, Source, open_rows, pick

_LM_EVAL_RULES = {(each["pattern"], each["match"]): each["rule"] for each in FORMATS["lm_eval_filter"]}
_CHAT_SERVERS = ("local-chat-completions", "openai-chat-completions", "anthropic-chat-completions")
_NO_SCORES = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
_HELM_SCORER = "final_number_exact_match"


def lm_eval(source: Source) -> None:
    """One row a problem from its rows of all filters. LogError where the file holds more than one run or task."""
    results, by_doc = source.results, dict[Any, list[Row]]()
    for row in source.rows:
        if not {"doc_id", "doc", "resps", "arguments"} <= set(row):
            raise LogError(f"{source.file.name}: a row is no sample of lm-eval, it has the keys {', '.join(row)}")
        by_doc.setdefault(row["doc_id"], []).append(row)
    configs = results.get("configs") or {}
    results["task"] = task = next(iter(configs)) if len(configs) == 1 else results.get("task")
    results["n_problems"] = pick(results, f"n-samples.{task}.effective")
    if isinstance(results.get("date"), int | float):
        results["time"] = datetime.fromtimestamp(results["date"], UTC).isoformat(timespec="seconds")
    torch = re.search(r"PyTorch version: (\S+)", str(results.get("pretty_env_info")))
    results["packages"] = {"transformers": results.get("transformers_version"), "torch": torch and torch[1]}
    steps = {each["name"]: each.get("filter") or [] for each in pick(results, f"configs.{task}.filter_list") or []}
    source.rows = [rows[0] | {"verdicts": _verdicts(source, rows, list(steps))} for rows in by_doc.values()]
    first = source.rows[0]
    n_texts = len(first["resps"][0]) if first["resps"] else 0
    voters = {scorer: _voters(scorer, steps.get(scorer), n_texts) for scorer in first["verdicts"]}
    source.voters = {scorer: size for scorer, size in voters.items() if size}
    source.rules = {} if configs else {"flexible-extract": "lm_eval_flexible"}  # the same in all tasks
    for scorer, parts in steps.items():
        patterns = [(part["regex_pattern"], part.get("group_select", 0)) for part in parts if "regex_pattern" in part]
        if len(patterns) == 1 and patterns[0] in _LM_EVAL_RULES:
            source.rules[scorer] = _LM_EVAL_RULES[patterns[0]]
    shots = pick(results, f"n-shot.{task}")
    source.facts = ({"shots": shots} if type(shots) is int else {}) | _chat(results)


def _verdicts(source: Source, rows: list[Row], filters: list[str]) -> dict[str, Any]:
    """The score of a problem under each filter."""
    first, scores = rows[0], dict[str, Any]()
    for turn, row in enumerate(rows):
        name = row.get("filter") or (filters[turn] if turn < len(filters) else f"filter {turn + 1}")
        if name in scores or row["resps"] != first["resps"] or row["doc"] != first["doc"] or 0 < len(filters) <= turn:
            raise LogError(
                f"{source.file.name}: holds several runs or tasks, doc_id {row['doc_id']} stands twice under filter "
                f"{name!r}; split it into a file for each"
            )
        # The exact match or the first metric; before 0.4.7, which does not name its metrics, the one key not known.
        metrics = row.get("metrics") or [key for key in row if key not in _NO_SCORES and not key.endswith("_hash")]
        scores[name] = row.get("exact_match", row.get(metrics[0]) if metrics else None)
    return scores


def _voters(scorer: str, steps: list[Row] | None, n_texts: int) -> int:
    """How many texts vote under a filter; 0 where it reads one text alone. Without its steps, its name tells."""
    if steps is None:
        return int(scorer[4:]) if re.fullmatch(r"maj@\d+", scorer) else 0
    if not any(step.get("function") == "majority_vote" for step in steps):
        return 0
    return next((step["k"] for step in steps if step.get("function") == "take_first_k"), n_texts)


def _chat(results: Row) -> dict[str, Any]:
    """Whether and how exemplars were put as turns of a chat, as far as the results file says."""
    turns = results.get("fewshot_as_multiturn") is True
    if "chat_template" not in results:
        return {}
    if results["chat_template"] or pick(results, "model_source|config.model") in _CHAT_SERVERS:
        return {"chat": True, "exemplars_as": "turns" if turns else "text"}
    if turns:  # refused without a chat until 0.4.8, and since then the default even of plain prompts
        return {} if "lm_eval_version" in results else {"chat": True, "exemplars_as": "turns"}
    return {"chat": False, "exemplars_as": "text"}


def lighteval(source: Source) -> None:
    """The number of a row's exemplars, of which none may also be stored as null."""
    doc = source.rows[0]["doc"]
    if "fewshot_samples" in doc:
        source.facts["shots"] = len(doc["fewshot_samples"] or [])


def old_lighteval(source: Source) -> None:
    """Rows of lighteval 0.4 to 0.7, which wrote some or all columns as Python's own text of them."""
    for number, row in enumerate(source.rows):
        for name in ("predictions", "metrics", "gold", "num_effective_few_shots"):
            try:
                row[name] = ast.literal_eval(row[name]) if isinstance(row.get(name), str) else row.get(name)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                if name == "predictions":
                    raise LogError(f"{source.file.name}, row {number}: {name!r} is no list of texts") from None


def inspect(source: Source) -> None:
    """The rule that repeats a numeric ``match``: since 0.3.221 the last number, before it the end of the text."""
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", str(pick(source.document, "eval.packages.inspect_ai")))
    new = version is None or tuple(map(int, version.groups())) >= (0, 3, 221)
    for scorer in pick(source.document, "eval.scorers|results.scores") or []:
        if pick(scorer, "options.numeric|params.numeric") is True and scorer["name"].rpartition("/")[2] == "match":
            source.rules[scorer["name"]] = "inspect" if new else "inspect_endswith"


def helm(source: Source) -> None:
    """The verdict that ``per_instance_stats.json`` has for each instance and trial, the task of ``run_spec.json``."""
    spec, statistics = source.file.with_name("run_spec.json"), source.file.with_name("per_instance_stats.json")
    if spec.exists():  # the task's name, then the model's
        source.results["task"] = str(open_rows(spec).document.get("name")).partition(":")[0]
    scores = {
        (block.get("instance_id"), block.get("train_trial_index", 0)): stat.get("mean")
        for block in (open_rows(statistics).rows if statistics.exists() else [])
        for stat in block.get("stats", [])
        if pick(stat, "name.name") == _HELM_SCORER and not block.get("perturbation")
    }
    for row in source.rows:
        key = (pick(row, "instance.id"), row.get("train_trial_index", 0))
        row["verdicts"] = {} if pick(row, "instance.perturbation") else {_HELM_SCORER: scores.get(key)}


def released(source: Source) -> None:
    """One system's column of OpenAI's released solutions."""
    systems = [name for name, value in source.rows[0].items() if isinstance(value, dict) and "is_correct" in value]
    if source.column not in systems:
        columns = f"has the columns {', '.join(systems)}; choose one with --column, got {source.column!r}"
        raise LogError(f"{source.file.name}: {columns}")
    source.rows = [row | {"system": row[source.column]} for row in source.rows]
