"""A run folder as every-eval-ever records, version 0.3.0 of its schema: one file of results, one of single samples.

    data/gsm8k/meta-llama/Llama-3.1-8B/0b0e...c1.json            {"schema_version": "0.3.0", "model_info": {...}, ...}
    data/gsm8k/meta-llama/Llama-3.1-8B/0b0e...c1_samples.jsonl   {"sample_id": "test-0000", "evaluation": {...}, ...}

A result is the accuracy under one rule, a row of the second file one sample under one rule. The schema has no word
for a sample without a verdict: a failed request is a row that is not correct and has an ``error``; no score counts it.
The records are public: nothing in them names a folder of this machine.
"""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gsm8k_nb import __version__
from gsm8k_nb.answers import RULES
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import HUB_ID
from gsm8k_nb.logs.log import LogError
from gsm8k_nb.protocol import made_by
from gsm8k_nb.runs import Run
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results, read_results

SCHEMA_VERSION = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_LOCAL = re.compile(r"[/~.\\]|package:|\w:\\|.*\.gguf$")
_COLLECTIONS = {"gsm8k": "gsm8k", "classroom": "gsm8k_nb-classroom"}  # only the official split is filed as gsm8k
_RESAMPLED = ("percentile", "bca")  # methods of intervals that resample
_METRIC = {
    "metric_id": "exact_match", "metric_name": "exact match", "metric_kind": "accuracy", "metric_unit": "proportion",
    "lower_is_better": False, "score_type": "continuous", "min_score": 0.0, "max_score": 1.0,
}  # fmt: skip


class Exported(NamedTuple):
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
    LogError for an option that is missing or unknown, RunError for a run that is not scored. The run stays as it is.
    """
    results = _results(Path(folder))
    identity = model_id or results.config.model
    if not _HUB_NAME.fullmatch(identity) or (model_id is None and Path(identity).exists()):
        raise LogError(f"model {identity!r} is no organisation/name; give --model-id, like HuggingFaceTB/SmolLM2-135M")
    if relationship not in RELATIONSHIPS:
        raise LogError(f"relationship: must be one of {', '.join(RELATIONSHIPS)}, got {relationship!r}")
    chosen = _rules(results, rules)
    collection = _COLLECTIONS.get(results.metrics.dataset.name, "gsm8k-unofficial")
    record = _record(results, collection, identity)
    record["source_metadata"] |= {"source_organization_name": organisation, "evaluator_relationship": relationship}
    record["evaluation_results"] = [_result(results, rule, collection) for rule in chosen]
    rows = _rows(results, chosen, record)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    digest = hashlib.sha256(repr((results.run.folder.name, identity, chosen)).encode())
    for name in ("samples.jsonl", "scores.jsonl"):  # the same run has the same name
        digest.update((results.run.folder / name).read_bytes())
    name = str(uuid.UUID(bytes=digest.digest()[:16], version=4))
    place = Path("data", collection, *identity.split("/"))
    record["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": (place / f"{name}_samples.jsonl").as_posix(),
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(text.encode()).hexdigest(),
        "total_rows": len(rows),
    }
    files = Run(Path(output).expanduser() / place)
    samples = files.write_text(f"{name}_samples.jsonl", text)
    files.write_json(f"{name}.json", record)
    return Exported(files.folder / f"{name}.json", samples, len(rows))


def _results(folder: Path) -> Results:
    run = Run(folder)
    values = run.read_json("config.json")
    if not values:
        raise LogError(f"{folder}: is no run folder, it has no config.json")
    config = RunConfig.checked({name: values[name] for name in RunConfig.model_fields if name in values})
    return read_results(run, config)


def _rules(results: Results, asked: Sequence[str]) -> list[str]:
    scored = results.metrics.rules
    if unknown := [rule for rule in asked if rule not in scored]:
        raise LogError(f"rules: the run is not scored under {unknown[0]!r}; it has {', '.join(scored)}")
    chosen = dict.fromkeys(asked or (results.headline_rule, *DEFAULT_RULES))
    if defined := [rule for rule in chosen if scored[rule].accuracy is not None]:
        return defined
    raise LogError(f"{results.run.folder.name}: no sample of the run was scored, there is nothing to export")


def _record(results: Results, collection: str, identity: str) -> dict[str, Any]:
    """What is said of the run as a whole. A model of a folder or file here is named by its identity alone."""
    config, now = results.config, str(int(time.time()))
    made, inputs = made_by(config, results.inputs)[1:]
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{collection}/{identity.replace('/', '_')}/{now}",
        "retrieved_timestamp": now,
        "source_metadata": {"source_name": "gsm8k_nb run folder", "source_type": "evaluation_run"},
        "eval_library": {
            "name": "gsm8k_nb",
            "version": __version__,
            "additional_details": _texts({"completions_from": inputs.log}),
        },
        "model_info": {
            "name": identity if _LOCAL.match(config.model) or Path(config.model).exists() else config.model,
            "id": identity,
            "developer": identity.partition("/")[0],
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
    }
    if made.sampler in ("transformers", "vllm", "ray"):
        workers = {"workers": "ray"} if made.sampler == "ray" else {}
        record["model_info"]["inference_engine"] = {"name": made.ray_engine if workers else made.sampler}
        record["model_info"]["additional_details"] |= {"deployment_type": "self_deployed"} | workers
    # When the texts were made: a log says so itself, a run's sessions do, of a replayed run it is not known.
    sessions = [] if config.sampler == "replay" else results.run.read_json("manifest.json").get("sessions") or []
    when = inputs.log.get("time") if inputs.log else sessions and (sessions[-1]["ended"] or sessions[-1]["started"])
    return record | ({"evaluation_timestamp": when} if when else {})


def _result(results: Results, rule: str, collection: str) -> dict[str, Any]:
    score, health = results.metrics.rules[rule], results.metrics.health
    counts = {"correct": score.correct, "scored": score.n, "no_answer": score.no_answer}
    asked = {"requested": health.requested, "failed": health.failed}
    headline = results.headline if rule == results.headline_rule else None
    interval = {"lower": score.ci_low, "upper": score.ci_high, "method": score.interval}
    resamples = {"num_bootstrap_samples": results.config.n_resamples} if score.interval in _RESAMPLED else {}
    return {
        "evaluation_result_id": rule,
        "evaluation_name": f"{collection}/{rule}",
        "source_data": _source_data(results),
        "metric_config": _METRIC
        | {
            "evaluation_description": f"share of samples right; answer read by {RULES[rule].description}",
            "additional_details": {"rule": rule, "rule_source": RULES[rule].source},
        },
        "score_details": {
            "score": score.accuracy,
            "details": _texts({"headline": headline} | counts | asked),
            "uncertainty": {
                "standard_error": {"value": score.standard_error, "method": "analytic, clustered by problem"},
                "confidence_interval": interval | {"confidence_level": results.config.confidence},
                "num_samples": score.n,
                **resamples,
            },
        },
        "generation_config": _generation(results),
    }


def _source_data(results: Results) -> dict[str, Any]:
    dataset = results.metrics.dataset
    source = dataset.source if dataset.revision else Path(dataset.source).name
    known = {"config": dataset.config, "sha256": dataset.sha256, "revision": dataset.revision, "source": source}
    details = {"additional_details": _texts(known)}
    if dataset.name != "gsm8k":
        return {"dataset_name": dataset.name, "source_type": "other"} | details
    return {
        "dataset_name": "GSM8K",
        "source_type": "hf_dataset",
        "hf_repo": HUB_ID,
        "hf_split": dataset.split,
        "samples_number": dataset.n_problems,
        "sample_ids": [problem.id for problem in results.problems],
    } | details


def _generation(results: Results) -> dict[str, Any]:
    """What the protocol says of the sampling; the schema has four fields for it, the rest goes to the details."""
    protocol = results.metrics.protocol.model_dump()
    fields = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_new_tokens": "max_tokens"}
    known = {theirs: protocol.pop(ours) for ours, theirs in fields.items()}
    return {
        "generation_args": {name: value for name, value in known.items() if value is not None},
        "additional_details": _texts(protocol),
    }


def _rows(results: Results, rules: list[str], record: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each sample under each rule; what the frame does not know is left out."""
    questions = {problem.id: problem.question for problem in results.problems}
    frame = results.frame[results.frame["rule"].isin(rules)].astype(object)
    rows = []
    for row in frame.where(frame.notna(), None).to_dict("records"):
        question, right = questions[row["problem_id"]], row["correct"] is True
        attribution = {"turn_idx": 0, "source": "output.raw", "extraction_method": row["rule"], "is_terminal": True}
        rows.append(
            {
                "schema_version": SCHEMA_VERSION,
                "evaluation_id": record["evaluation_id"],
                "model_id": record["model_info"]["id"],
                "evaluation_name": f"{record['evaluation_id'].partition('/')[0]}/{row['rule']}",
                "evaluation_result_id": row["rule"],
                "sample_id": row["problem_id"],
                "sample_hash": hashlib.sha256((question + row["gold"]).encode()).hexdigest(),
                "interaction_type": "single_turn",
                "input": {"raw": question, "reference": [row["gold"]]},
                "output": {"raw": [] if row["text"] is None else [row["text"]]},
                "answer_attribution": [attribution | {"extracted_value": row["predicted"]}] if row["predicted"] else [],
                "evaluation": {"score": float(right), "is_correct": right},
                **_measured(row),
                "metadata": _texts({name: row[name] for name in ("sample_index", "finish_reason", "steps")}),
            }
        )
    return rows


def _measured(row: dict[str, Any]) -> dict[str, Any]:
    """Tokens, time and error of a sample, each only where it is known."""
    measured: dict[str, Any] = {} if row["error"] is None else {"error": str(row["error"])}
    if row["prompt_tokens"] is not None and row["completion_tokens"] is not None:
        counts = {"input_tokens": int(row["prompt_tokens"]), "output_tokens": int(row["completion_tokens"])}
        measured["token_usage"] = counts | {"total_tokens": sum(counts.values())}
    if row["seconds"] is not None:
        measured["performance"] = {"generation_time_ms": 1000 * float(row["seconds"])}
    return measured


def _texts(values: dict[str, Any]) -> dict[str, str]:
    """Details as the schema wants them: texts only, nothing that is not known."""
    known = {name: value for name, value in values.items() if value is not None}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in known.items()}
