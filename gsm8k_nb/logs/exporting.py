"""A run folder as every-eval-ever records, version 0.3.0 of its schema: one file of results, one of single samples.

    data/gsm8k/meta-llama/Llama-3.1-8B/0b0e...c1.json            {"schema_version": "0.3.0", "model_info": {...}, ...}
    data/gsm8k/meta-llama/Llama-3.1-8B/0b0e...c1_samples.jsonl   {"sample_id": "test-0000", "evaluation": {...}, ...}

A result is the accuracy under one rule, a row of the second file one sample under one rule; their words stand in
``assets/every_eval_ever.json.jinja``. The records are public: nothing in them names a folder of this machine.
"""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from gsm8k_nb import __version__
from gsm8k_nb.answers import RULES
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import HUB_ID
from gsm8k_nb.logs.files import LogError
from gsm8k_nb.places import own_asset
from gsm8k_nb.protocol import made_by
from gsm8k_nb.runs import Run, sha256_of
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results, read_results

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_LOCAL = re.compile(r"[/~.\\]|package:|\w:\\|.*\.gguf$")
_COLLECTIONS = {"gsm8k": "gsm8k", "classroom": "gsm8k_nb-classroom"}  # only the official split is filed as gsm8k
_ARGUMENTS = {"temperature", "top_p", "top_k", "max_new_tokens"}  # of the protocol: the schema has fields for them
_DETAILS = ("additional_details", "details", "metadata")  # the schema wants their values as texts


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
    run = Run(folder)
    values = run.read_json("config.json")
    if not values:
        raise LogError(f"{folder}: is no run folder, it has no config.json")
    config = RunConfig.stored(values)
    results = read_results(run, config)
    identity = model_id or config.model
    if not _HUB_NAME.fullmatch(identity) or (model_id is None and Path(identity).exists()):
        raise LogError(f"model {identity!r} is no organisation/name; give --model-id, like HuggingFaceTB/SmolLM2-135M")
    if relationship not in RELATIONSHIPS:
        raise LogError(f"relationship: must be one of {', '.join(RELATIONSHIPS)}, got {relationship!r}")
    chosen = _rules(results, rules)
    collection = _COLLECTIONS.get(results.metrics.dataset.name, "gsm8k-unofficial")
    who = {"organisation": organisation, "relationship": relationship, "collection": collection}
    template = _template(results, identity, **who)
    text = "".join(json.dumps(row) + "\n" for row in _rows(results, chosen, template))
    files = [sha256_of(run.folder / name) for name in ("samples.jsonl", "scores.jsonl")]
    digest = hashlib.sha256(repr((run.folder.name, identity, chosen, files)).encode()).digest()
    name, place = str(uuid.UUID(bytes=digest[:16], version=4)), Path("data", collection, *identity.split("/"))
    link = [(place / f"{name}_samples.jsonl").as_posix(), hashlib.sha256(text.encode()).hexdigest(), text.count("\n")]
    out = Run(Path(output).expanduser() / place)
    samples = out.write_text(f"{name}_samples.jsonl", text)
    out.write_json(f"{name}.json", _known(json.loads(template.record(chosen, *link))))
    return Exported(out.folder / f"{name}.json", samples, text.count("\n"))


def _rules(results: Results, asked: Sequence[str]) -> list[str]:
    scored = results.metrics.rules
    if unknown := [rule for rule in asked if rule not in scored]:
        raise LogError(f"rules: the run is not scored under {unknown[0]!r}; it has {', '.join(scored)}")
    chosen = dict.fromkeys(asked or (results.headline_rule, *DEFAULT_RULES))
    if defined := [rule for rule in chosen if scored[rule].accuracy is not None]:
        return defined
    raise LogError(f"{results.run.folder.name}: no sample of the run was scored, there is nothing to export")


def _template(results: Results, identity: str, **more: str) -> Any:
    """The template's macros, with the run that they are of; a model of a file here is named by its identity alone."""
    config, dataset, now = results.config, results.metrics.dataset, str(int(time.time()))
    made, inputs = made_by(config, results.inputs)[1:]
    # When the texts were made: a log says so itself, a run's sessions do, of a replayed run it is not known.
    sessions = [] if config.sampler == "replay" else results.run.read_json("manifest.json").get("sessions") or []
    when = inputs.log.get("time") if inputs.log else sessions and (sessions[-1]["ended"] or sessions[-1]["started"])
    text = own_asset("every_eval_ever.json.jinja")
    values = more | {
        "results": results, "made": made, "inputs": inputs, "known_rules": RULES, "arguments": _ARGUMENTS,
        "package_version": __version__, "hub_id": HUB_ID, "now": now, "made_at": when or None, "identity": identity,
        "evaluation_id": f"{more['collection']}/{identity.replace('/', '_')}/{now}",
        "model": identity if _LOCAL.match(config.model) or Path(config.model).exists() else config.model,
        "engine": {"transformers": "transformers", "vllm": "vllm", "ray": made.ray_engine}.get(made.sampler),
        "source": dataset.source if dataset.revision else Path(dataset.source).name,
    }  # fmt: skip
    return Environment(finalize=json.dumps, undefined=StrictUndefined).from_string(text).make_module(values)


def _rows(results: Results, rules: list[str], template: Any) -> list[dict[str, Any]]:
    """One row for each sample under each rule."""
    questions = {problem.id: problem.question for problem in results.problems}
    frame = results.frame[results.frame["rule"].isin(rules)].astype(object)
    rows = []
    for row in frame.where(frame.notna(), None).to_dict("records"):
        question = questions[row["problem_id"]]
        digest = hashlib.sha256((question + row["gold"]).encode()).hexdigest()
        rows.append(_known(json.loads(template.sample(row, question, digest))))
    return rows


def _known(value: Any, name: str = "") -> Any:
    """What the template made, without what is null; details as texts."""
    if isinstance(value, list):
        return [_known(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = {key: _known(item, key) for key, item in value.items() if item is not None}
    texts = {key: item if isinstance(item, str) else json.dumps(item) for key, item in known.items()}
    return texts if name in _DETAILS else known


def export_runs(folders: Sequence[str], **stated: Any) -> None:
    """The command ``export``: the files of each run."""
    for folder in folders:
        done = export_run(folder, **stated)
        print(f"{done.results}\n{done.samples} ({done.rows} rows)")
