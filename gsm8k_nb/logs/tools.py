"""What the formats in ``assets/logs.toml`` cannot say as data: rows to be made readable, rules told by a version."""

import ast
import re
from typing import Any

from gsm8k_nb.logs.files import Row, Source, pick
from gsm8k_nb.logs.log import LogError

_HELM_SCORER = "final_number_exact_match"


def lighteval_facts(source: Source) -> dict[str, Any]:
    """What a lighteval row states itself: its exemplars (none may also be stored as null), token limit and stops."""
    doc = source.rows[0]["doc"]
    stated: dict[str, Any] = {"shots": len(doc["fewshot_samples"] or [])} if "fewshot_samples" in doc else {}
    if doc.get("generation_size"):
        stated["max_new_tokens"] = doc["generation_size"]
    if doc.get("stop_sequences"):
        stated["stop"] = list(doc["stop_sequences"])
    return stated


def unquoted(source: Source) -> list[Row]:
    """Rows of lighteval 0.4 to 0.7, which wrote some or all columns as Python's own text of them."""
    for number, row in enumerate(source.rows):
        for name in ("predictions", "metrics", "gold", "num_effective_few_shots"):
            try:
                row[name] = ast.literal_eval(row[name]) if isinstance(row.get(name), str) else row.get(name)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                if name == "predictions":
                    raise LogError(f"{source.name}, row {number}: {name!r} is no list of texts") from None
    return source.rows


def inspect_rules(source: Source) -> dict[str, str]:
    """The rule that repeats a numeric ``match``: since 0.3.221 the last number, before it the end of the text."""
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", str(pick(source.document, "eval.packages.inspect_ai")))
    new = version is None or tuple(map(int, version.groups())) >= (0, 3, 221)
    rule = "inspect" if new else "inspect_endswith"
    scorers = pick(source.document, "eval.scorers|results.scores") or []
    names = [scorer["name"] for scorer in scorers if pick(scorer, "options.numeric|params.numeric") is True]
    return {name: rule for name in names if name.rpartition("/")[2] == "match"}


def with_statistics(source: Source) -> list[Row]:
    """HELM's requests with the verdict that ``per_instance_stats.json`` has for each instance and trial."""
    scores = {
        (block.get("instance_id"), block.get("train_trial_index", 0)): stat.get("mean")
        for block in source.results.get("per_instance_stats", [])
        for stat in block.get("stats", [])
        if pick(stat, "name.name") == _HELM_SCORER and not block.get("perturbation")
    }
    for row in source.rows:
        key = (pick(row, "instance.id"), row.get("train_trial_index", 0))
        row["verdicts"] = {} if pick(row, "instance.perturbation") else {_HELM_SCORER: scores.get(key)}
    return source.rows
