"""The formats of the tools whose files are rows or one object; lm-eval's, whose rows belong together, is beside.

lighteval    details_TASK_TIME.parquet, with results_TIME.json
inspect      .eval and JSON logs
HELM         scenario_state.json, with run_spec.json and per_instance_stats.json
OpenCompass  predictions/MODEL/gsm8k.json
evalscope    predictions/ and reviews/MODEL/gsm8k_main.jsonl, of llmuses and 0.x, and of 1.x
Qwen2.5-Math and ToRA (test_PROMPT_-1_seed0_t0.0_s0_e-1.jsonl), verl's dumps (STEP.jsonl), Meta's published evals
"""

import ast
import re
from dataclasses import replace
from typing import Any

from gsm8k_nb.answers import RULES
from gsm8k_nb.logs.files import Row, Source
from gsm8k_nb.logs.formats import Format, pick
from gsm8k_nb.logs.log import LogError

LIGHTEVAL = Format(
    "lighteval",
    signs=("doc", "model_response"),
    question="doc.original_query|doc.query",
    completion="model_response.text",
    gold="doc.choices.0",
    prompt_tokens="model_response.input_tokens",
    completion_tokens="model_response.output_tokens",
    verdicts={"*": "metric"},
    model="results.config_general.model_name",
    task="rows.0.doc.task_name",
    version="results.config_general.lighteval_sha",
    settings=(
        "results.config_general.generation_parameters",
        "results.config_general.model_config.generation_parameters",
    ),
    stated=lambda source: _of_doc(source.rows[0]["doc"]),
)


def _of_doc(doc: Row) -> dict[str, Any]:
    """What a lighteval row states itself: its exemplars (none may also be stored as null), token limit and stops."""
    stated: dict[str, Any] = {"shots": len(doc["fewshot_samples"] or [])} if "fewshot_samples" in doc else {}
    if doc.get("stop_sequences"):
        stated["stop"] = list(doc["stop_sequences"])
    return stated


def _unquoted(source: Source) -> list[Row]:
    """Rows of lighteval 0.4 to 0.7, which wrote some or all columns as Python's own text of them."""
    columns = ("predictions", "metrics", "gold", "num_effective_few_shots")
    for number, row in enumerate(source.rows):
        for name in columns:
            if isinstance(row.get(name), str):
                try:
                    row[name] = ast.literal_eval(row[name])
                except (ValueError, SyntaxError, MemoryError, RecursionError):
                    if name == "predictions":
                        raise LogError(f"{source.name}, row {number}: {name!r} is no list of texts") from None
    return source.rows


LIGHTEVAL_OLD = replace(
    LIGHTEVAL,
    signs=("example", "predictions"),
    prepare=_unquoted,
    question="example",
    completion="predictions",
    gold="gold.0|gold",
    prompt_tokens="",
    completion_tokens="",
    verdicts={"*": "metrics"},
    task="",
    shots="rows.*.num_effective_few_shots",
    stated=None,
)


def _by_inspect(source: Source) -> dict[str, str]:
    """The rule that repeats a numeric ``match``: since 0.3.221 the last number, before it the end of the text."""
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", str(pick(source.document, "eval.packages.inspect_ai")))
    new = version is None or tuple(map(int, version.groups())) >= (0, 3, 221)
    rule = "inspect" if new else "inspect_endswith"
    scorers = pick(source.document, "eval.scorers|results.scores") or []
    names = [scorer["name"] for scorer in scorers if pick(scorer, "options.numeric|params.numeric") is True]
    return {name: rule for name in names if name.rpartition("/")[2] == "match" and rule in RULES}


INSPECT = Format(
    "inspect",
    signs=("eval.task", "status", "version"),
    container="samples",
    order="epoch",
    place="id",
    question="input",
    completion="output.choices.*.message.content",
    gold="target",
    error="error.message|error|output.error",
    finish="output.choices.*.stop_reason",
    prompt_tokens="output.usage.input_tokens",
    completion_tokens="output.usage.output_tokens",
    seconds="output.time",
    verdicts={"*": "scores"},
    on_first=True,
    rules=_by_inspect,
    model="document.eval.model",
    task="document.eval.task",
    version="document.eval.packages.inspect_ai",
    time="document.stats.started_at|document.eval.created",
    packages="document.eval.packages",
    n_problems="document.eval.dataset.samples",
    shots="|".join(f"document.eval.task_args.{name}" for name in ("fewshot", "num_fewshot", "n_shots", "shots")),
    settings=("document.eval.model_generate_config", "document.plan.config"),  # the plan's is the one in force
)


def _with_statistics(source: Source) -> list[Row]:
    """HELM's requests with what ``per_instance_stats.json`` says of each instance and trial."""
    scores = {
        (block.get("instance_id"), block.get("train_trial_index", 0)): {
            name: stat.get("mean")
            for stat in block.get("stats", [])
            if (name := pick(stat, "name.name")) == _HELM_SCORER
        }
        for block in source.results.get("per_instance_stats", [])
        if not block.get("perturbation")
    }
    for row in source.rows:
        key = (pick(row, "instance.id"), row.get("train_trial_index", 0))
        row["verdicts"] = {} if pick(row, "instance.perturbation") else scores.get(key, {})
    return source.rows


_HELM_SCORER = "final_number_exact_match"
HELM = Format(
    "HELM",
    signs=("adapter_spec", "request_states"),
    container="request_states",
    prepare=_with_statistics,
    order="train_trial_index",
    question="instance.input.text|instance.input.messages",
    completion="result.completions.*.text",
    error="result.error",
    finish="result.completions.*.finish_reason.reason",
    completion_tokens="result.completions.*.tokens",
    seconds="result.request_time",
    verdicts={"*": "verdicts"},
    rules=lambda _: {_HELM_SCORER: "helm"},
    model="document.adapter_spec.model",
    task="results.scenario",
    shots="rows.*.num_train_instances|document.adapter_spec.max_train_instances",
    settings=("document.adapter_spec",),
)


OPENCOMPASS = Format(
    "OpenCompass",
    signs=("origin_prompt", "prediction"),
    question="origin_prompt",
    completion="prediction",
    gold="gold",
)
EVALSCOPE = Format(  # 1.x, predictions
    "evalscope",
    signs=("index", "model_output"),
    one_run=("model",),
    question="messages|question",
    completion="model_output.choices.*.message.content",
    error="model_output.error",
    finish="model_output.choices.*.stop_reason",
    prompt_tokens="model_output.usage.input_tokens",
    completion_tokens="model_output.usage.output_tokens",
    seconds="model_output.time",
    model="rows.0.model",
)
EVALSCOPE_REVIEWS = Format(  # 1.x, reviews
    "evalscope",
    signs=("index", "sample_score.score"),
    question="input",
    completion="sample_score.score.prediction",
    gold="target",
    verdicts={"*": "sample_score.score.value"},
)
EVALSCOPE_OLD = Format(  # llmuses and evalscope 0.x, predictions and reviews
    "evalscope",
    signs=("raw_input", "choices"),
    one_run=("model", "subset_name"),
    question="raw_input.question",
    completion="choices.*.message.content",
    gold="raw_input.answer",
    finish="choices.*.finish_reason",
    prompt_tokens="usage.prompt_tokens",
    completion_tokens="usage.completion_tokens",
    verdicts={"review": "choices.*.review.result"},
    model="rows.0.model_spec.model_id|rows.0.model",
    version="rows.0.model_spec.evalscope_version",
)
QWEN_MATH = Format(
    "Qwen2.5-Math",
    signs=("question", "code", "pred", "gt"),
    place="idx",
    question="question",
    completion="code",
    gold="gt",
    verdicts={"score": "score"},
)
VERL = Format(
    "verl",
    signs=("input", "output", "score", "step"),
    one_run=("step", "data_source"),
    question="input",
    completion="output",
    gold="gts",
    verdicts={"score": "score"},
)
META = Format(
    "Meta's evals",
    signs=("input_question", "output_prediction_text", "is_correct"),
    one_run=("task_name", "subtask_name"),
    question="input_question",
    completion="output_prediction_text",
    gold="input_correct_responses.0",
    verdicts={"is_correct": "is_correct"},
    task="rows.0.task_name",
)
