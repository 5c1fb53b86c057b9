"""A run folder as every-eval-ever records, version 0.3.0 of its schema: one file of results, one of single samples.

    data/gsm8k/meta-llama/Llama-3.1-8B/0b0e...c1.json            {"schema_version": "0.3.0", "model_info": {...}, ...}
    data/gsm8k/meta-llama/Llama-3.1-8B/0b0e...c1_samples.jsonl   {"sample_id": "test-0000", "evaluation": {...}, ...}

A result is the accuracy under one rule, a row of the second file one sample under one rule. The schema has no word
for a sample without a verdict: a failed request is a row that is not correct and has an ``error``; no score counts it.
"""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsm8k_nb import __version__, summary
from gsm8k_nb.answers import RULES
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import HUB_ID
from gsm8k_nb.logs.log import LogError
from gsm8k_nb.runs import Run
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results

SCHEMA_VERSION = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Exported:
    """The two files that an export wrote."""

    results: Path
    samples: Path
    rows: int


def export_run(
    folder: str | Path,
    *,
    organisation: str,
    relationship: str = "other",
    model_id: str | None = None,
    rules: Sequence[str] = (),
    output: str | Path = ".",
) -> Exported:
    """Write a scored run below ``output/data/``. Exporting the same run again replaces the same files.

    ``organisation`` is who made the run, ``relationship`` theirs to the model. ``model_id`` (organisation/name) is
    needed where the run's own model name is not of that form. ``rules``: the headline's, strict, flexible unless named.
    LogError for an option that is missing or unknown, RunError for a run that is not scored.
    """
    results = _results(Path(folder))
    identity = model_id or results.config.model
    if not _HUB_NAME.fullmatch(identity) or (model_id is None and Path(identity).exists()):
        raise LogError(f"model {identity!r} is no organisation/name; give --model-id, like HuggingFaceTB/SmolLM2-135M")
    if relationship not in RELATIONSHIPS:
        raise LogError(f"relationship: must be one of {', '.join(RELATIONSHIPS)}, got {relationship!r}")
    chosen = _rules(results, rules)
    record = _record(results, chosen, identity, organisation, relationship)
    lines = [json.dumps(row) for row in _rows(results, chosen, identity, record["evaluation_id"])]
    text = "\n".join(lines) + "\n"
    name = _name(results, identity, chosen)
    place = Path("data", _collection(results), *identity.split("/"))
    record["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": (place / f"{name}_samples.jsonl").as_posix(),
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(text.encode()).hexdigest(),
        "total_rows": len(lines),
    }
    files = Run(Path(output).expanduser() / place)
    samples = files.write_text(f"{name}_samples.jsonl", text)
    files.write_json(f"{name}.json", record)
    return Exported(files.folder / f"{name}.json", samples, len(lines))


def _results(folder: Path) -> Results:
    run = Run(folder)
    values = run.read_json("config.json")
    if not values:
        raise LogError(f"{folder}: is no run folder, it has no config.json")
    config = RunConfig.checked({name: values[name] for name in RunConfig.model_fields if name in values})
    return summary.summarise(run, config)


def _rules(results: Results, asked: Sequence[str]) -> list[str]:
    scored = results.metrics["rules"]
    unknown = [rule for rule in asked if rule not in scored]
    if unknown:
        raise LogError(f"rules: the run is not scored under {unknown[0]!r}; it has {', '.join(scored)}")
    chosen = list(dict.fromkeys(asked or (results.headline_rule, *DEFAULT_RULES)))
    defined = [rule for rule in chosen if scored[rule]["accuracy"] is not None]
    if not defined:
        raise LogError(f"{results.run.folder.name}: no sample of the run was scored, there is nothing to export")
    return defined


def _collection(results: Results) -> str:
    """The folder that the record belongs to. Only the official split is filed as gsm8k."""
    known = {"gsm8k": "gsm8k", "classroom": "gsm8k_nb-classroom"}
    return known.get(results.metrics["dataset"]["name"], "gsm8k-unofficial")


def _name(results: Results, identity: str, rules: list[str]) -> str:
    """A UUID of what is exported, so that the same run has the same name."""
    digest = hashlib.sha256(repr((results.run.folder.name, identity, rules)).encode())
    for name in ("samples.jsonl", "scores.jsonl"):
        digest.update((results.run.folder / name).read_bytes())
    return str(uuid.UUID(bytes=digest.digest()[:16], version=4))


def _record(results: Results, rules: list[str], identity: str, organisation: str, relationship: str) -> dict[str, Any]:
    now = str(int(time.time()))
    sessions = results.run.read_json("manifest.json").get("sessions", [])
    when = {"evaluation_timestamp": sessions[-1]["ended"]} if sessions else {}
    deployment = "self_deployed" if results.config.sampler in ("transformers", "vllm") else "unknown"
    log = results.inputs.get("log")
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{_collection(results)}/{identity.replace('/', '_')}/{now}",
        **when,
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "gsm8k_nb run folder",
            "source_type": "evaluation_run",
            "source_organization_name": organisation,
            "evaluator_relationship": relationship,
        },
        "eval_library": {
            "name": "gsm8k_nb",
            "version": __version__,
            "additional_details": _texts({"completions_from": log}) if log else {},
        },
        "model_info": {
            "name": results.config.model,
            "id": identity,
            "developer": identity.split("/")[0],
            "additional_details": {"deployment_type": deployment, "model_availability": "unknown"},
        },
        "evaluation_results": [_result(results, rule) for rule in rules],
    }


def _result(results: Results, rule: str) -> dict[str, Any]:
    values, health = results.metrics["rules"][rule], results.metrics["health"]
    return {
        "evaluation_result_id": rule,
        "evaluation_name": f"{_collection(results)}/{rule}",
        "source_data": _source_data(results),
        "metric_config": {
            "evaluation_description": f"share of samples right; answer read by {RULES[rule].description}",
            "metric_id": "exact_match",
            "metric_name": "exact match",
            "metric_kind": "accuracy",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
            "additional_details": {"rule": rule, "rule_source": RULES[rule].source},
        },
        "score_details": {
            "score": values["accuracy"],
            "details": _texts(
                {
                    "headline": results.headline if rule == results.headline_rule else None,
                    "correct": values["correct"],
                    "scored": values["n"],
                    "requested": health["requested"],
                    "failed": health["failed"],
                    "no_answer": values["no_answer"],
                }
            ),
            "uncertainty": _uncertainty(values, results.config),
        },
        "generation_config": _generation(results),
    }


def _uncertainty(values: dict[str, Any], config: RunConfig) -> dict[str, Any]:
    resampled = "bootstrap" in values["interval"].lower()
    return {
        "standard_error": {"value": values["standard_error"], "method": values["interval"]},
        "confidence_interval": {
            "lower": values["ci_low"],
            "upper": values["ci_high"],
            "confidence_level": config.confidence,
            "method": values["interval"],
        },
        "num_samples": values["n"],
    } | ({"num_bootstrap_samples": config.n_resamples} if resampled else {})


def _source_data(results: Results) -> dict[str, Any]:
    dataset = results.metrics["dataset"]
    known = {name: dataset[name] for name in ("config", "sha256", "revision", "source")}
    details = {"additional_details": _texts(known)}
    if dataset["name"] != "gsm8k":
        return {"dataset_name": dataset["name"], "source_type": "other"} | details
    return {
        "dataset_name": "GSM8K",
        "source_type": "hf_dataset",
        "hf_repo": HUB_ID,
        "hf_split": dataset["split"],
        "samples_number": dataset["n_problems"],
        "sample_ids": [problem.id for problem in results.problems],
    } | details


def _generation(results: Results) -> dict[str, Any]:
    """What the protocol says of the sampling; the schema has four fields for it, the rest goes to the details."""
    protocol = dict(results.metrics["protocol"])
    fields = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_new_tokens": "max_tokens"}
    known = {theirs: protocol.pop(ours) for ours, theirs in fields.items()}
    return {
        "generation_args": {name: value for name, value in known.items() if value is not None},
        "additional_details": _texts(protocol),
    }


def _rows(results: Results, rules: list[str], identity: str, evaluation_id: str) -> list[dict[str, Any]]:
    problems = {problem.id: problem for problem in results.problems}
    rows = []
    for one in results.frame[results.frame["rule"].isin(rules)].astype(object).to_dict("records"):
        question = problems[one["problem_id"]].question
        text = one["text"] if isinstance(one["text"], str) else None
        read = one["predicted"] if isinstance(one["predicted"], str) else None
        rows.append(
            {
                "schema_version": SCHEMA_VERSION,
                "evaluation_id": evaluation_id,
                "model_id": identity,
                "evaluation_name": f"{_collection(results)}/{one['rule']}",
                "evaluation_result_id": one["rule"],
                "sample_id": one["problem_id"],
                "sample_hash": hashlib.sha256((question + one["gold"]).encode()).hexdigest(),
                "interaction_type": "single_turn",
                "input": {"raw": question, "reference": [one["gold"]]},
                "output": {"raw": [] if text is None else [text]},
                "answer_attribution": [] if read is None else [_attribution(read, one["rule"])],
                "evaluation": {"score": float(one["correct"] is True), "is_correct": one["correct"] is True},
                **_measured(one),
                "metadata": _texts({name: _known(one[name]) for name in ("sample_index", "finish_reason", "steps")}),
            }
        )
    return rows


def _attribution(read: str, rule: str) -> dict[str, Any]:
    return {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": read,
        "extraction_method": rule,
        "is_terminal": True,
    }


def _measured(one: dict[str, Any]) -> dict[str, Any]:
    """Tokens, time and error of a sample, each only where it is known."""
    found: dict[str, Any] = {}
    prompt, completion, seconds, error = map(
        _known, (one["prompt_tokens"], one["completion_tokens"], one["seconds"], one["error"])
    )
    if prompt is not None and completion is not None:
        counts = {"input_tokens": int(prompt), "output_tokens": int(completion)}
        found["token_usage"] = counts | {"total_tokens": sum(counts.values())}
    if seconds is not None:
        found["performance"] = {"generation_time_ms": 1000 * float(seconds)}
    if error is not None:
        found["error"] = str(error)
    return found


def _known(value: Any) -> Any:
    """A cell of the frame, with pandas' missing values as None."""
    return None if value is None or value != value else value


def _texts(values: dict[str, Any]) -> dict[str, str]:
    """Details as the schema wants them: texts only, nothing that is not known."""
    known = {name: value for name, value in values.items() if value is not None}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in known.items()}
