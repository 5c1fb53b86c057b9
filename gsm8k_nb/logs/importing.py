"""A log into a run folder that the notebooks replay and compare.

>>> done = import_log("samples_gsm8k_cot_2026-11-30T08-16-21.jsonl", data_path="test.jsonl")
>>> done.headline
'gsm8k subset acc (lm-eval gsm8k_cot, test@1, 8-shot, 40 of 1319 problems) = 0.0250'
>>> done.agreement["strict-match"]
Agreement(rule='lm_eval_cot_strict', alike=40, of=40, exact=True)

Completions are matched to problems by the text of the question; what matches none goes to ``unaligned.jsonl`` with the
reason. A request that failed, and a sample that a problem lacks where others have it, are failed samples. The tool's
verdicts go to ``source_verdicts.jsonl`` beside ours, other gold answers than ours to ``other_gold.jsonl``.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.answers import is_correct, judge
from gsm8k_nb.config import RunConfig
from gsm8k_nb.logs.aligning import Aligned, align, other_golds
from gsm8k_nb.logs.log import Entry, Log, LogError
from gsm8k_nb.logs.reading import Columns, read_log
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import manifest

_IN_CONFIG = ("temperature", "top_p", "top_k", "max_new_tokens")  # stated fields that are also parameters of ours
_NEEDED = {"shots": "number of exemplars", "temperature": "temperature"}  # what a label is made of
_COPIED = ("text", "finish_reason", "error", "prompt_tokens", "completion_tokens", "seconds")
NEAREST = "flexible"  # the rule laid beside a scorer that no rule of ours repeats


@dataclass(frozen=True)
class Agreement:
    """How many of a tool's own verdicts ``rule`` gives as well; ``exact`` where that rule repeats the tool's."""

    rule: str
    alike: int
    of: int
    exact: bool = True


@dataclass(frozen=True)
class Imported:
    """What an import made.

    ``failed``, ``unaligned``, ``within`` and ``unchecked`` count completions; ``within`` those whose question stood in
    a longer text, ``unchecked`` those placed by the log's row number alone. ``other_gold`` counts problems, ``stated``
    is how many the log says it has. ``disagreements`` are rows of ``source_verdicts.jsonl``.
    """

    run: Run
    config: RunConfig
    headline: str
    problems: int
    samples_each: int
    failed: int
    unaligned: int
    within: int
    agreement: dict[str, Agreement]
    unchecked: int
    other_gold: int
    stated: int | None
    disagreements: list[dict[str, Any]]


def import_log(
    path: str | Path,
    *,
    dataset: str = "gsm8k",
    dataset_config: str = "main",
    data_path: str | None = None,
    protocol_label: str | None = None,
    model: str | None = None,
    column: str | None = None,
    columns: Columns | None = None,
    results: str | None = None,
    outputs_dir: str = "outputs",
) -> Imported:
    """Read a log, match it to the data set, write its run folder and score it. A second import of a file adds nothing.

    ``protocol_label`` and ``model`` state what the log does not, and win over what it does. LogError where neither
    states it, where no completion matches a problem, where most gold answers differ, or where the file is of no known
    kind.
    """
    file = Path(path).expanduser()
    log = read_log(file, column=column, columns=columns, results=results)
    source = data.open_dataset(dataset, config=dataset_config, path=data_path)
    aligned = align(log, source.problems)
    problems = [problem for problem in source.problems if problem.id in aligned.matched]
    golds = _checked_golds(file.name, log, source, aligned, problems)
    n_samples = max(len(entries) for entries in aligned.matched.values())
    whole_top = problems == source.problems[: len(problems)]
    config = RunConfig.checked(
        {
            "model": model or log.model,
            "sampler": "replay",
            "dataset": dataset,
            "dataset_config": dataset_config,
            "data_path": data_path,
            "limit": len(problems) if whole_top and len(problems) < len(source.problems) else None,
            "prompt": "as_stored",
            "n_samples": n_samples,
            "replay_path": str(path),
            "replay_column": column,
            "protocol_label": _label(file.name, log, n_samples, protocol_label, model),
            "outputs_dir": outputs_dir,
            **{name: log.stated[name] for name in _IN_CONFIG if name in log.stated},
        }
    )
    run = _write(file, log, config, source, _samples(problems, aligned.matched, n_samples), problems)
    verdicts = list(_verdicts(log, problems, aligned.matched))
    for name, rows in (
        ("unaligned.jsonl", aligned.unaligned),
        ("source_verdicts.jsonl", verdicts),
        ("other_gold.jsonl", golds),
    ):
        run.write_text(name, "".join(json.dumps(row) + "\n" for row in rows))
    summary.score_run(run, config, problems)
    scored = summary.summarise(run, config)
    return Imported(
        run,
        config,
        scored.headline,
        len(problems),
        n_samples,
        scored.metrics["health"]["failed"],
        len(aligned.unaligned),
        aligned.within,
        _agreement(log, verdicts),
        aligned.unchecked,
        len(golds),
        log.n_problems,
        [row for row in verdicts if row["correct"] != row["ours"]],
    )


def _checked_golds(
    name: str, log: Log, source: data.Dataset, aligned: Aligned, problems: list[Problem]
) -> list[dict[str, Any]]:
    """The log's other gold answers. LogError where it cannot be of this data set: no problem, or most answers other."""
    where = f"{source.label} ({source.config}, {source.split})"
    if not problems and not any(entry.question or entry.index is not None for entry in log.entries):
        raise LogError(f"{name}: its {log.tool} rows state no question; name columns with --question and --completion")
    if not problems:
        raise LogError(
            f"{name}: none of its {len(log.entries)} completions is of a problem of {where}; "
            f"its first question is {log.entries[0].question[:80]!r}"
        )
    golds = other_golds(problems, aligned.matched)
    if 2 * len(golds) > len(problems):
        row = golds[0]
        raise LogError(
            f"{name}: {len(golds)} of {len(problems)} gold answers are not those of {where}, as {row['theirs']} for "
            f"{row['problem_id']} with {row['ours']}; name the data set it is of, or check that --index counts from 0"
        )
    return golds


def _label(name: str, log: Log, n_samples: int, label: str | None, model: str | None) -> str:
    """How a headline states the protocol: as given, else as the log does. LogError names all that neither states."""
    lacking = [word for field, word in _NEEDED.items() if field not in log.stated and label is None]
    ways = ["--protocol-label TEXT, as in 'test@1, 8-shot CoT'"] if lacking else []
    if not (model or log.model):
        lacking, ways = [*lacking, "model"], [*ways, "--model NAME"]
    if lacking:
        raise LogError(f"{name}: does not state its {' and its '.join(lacking)}; give {' and '.join(ways)}")
    if label is not None:
        return label
    temperature = log.stated["temperature"]
    metric = "test@1" if temperature == 0 and n_samples == 1 else f"avg@{n_samples}, T={temperature:g}"
    return f"{' '.join(filter(None, (log.tool, log.task)))}, {metric}, {log.stated['shots']}-shot"


def _write(
    file: Path, log: Log, config: RunConfig, source: data.Dataset, samples: list[Sample], problems: list[Problem]
) -> Run:
    """The run folder with its configuration, problems, samples and manifest, which says nothing of this machine."""
    started = manifest.now()
    run = sampling.begin(config, source, problems)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    made_by = {"tool": log.tool, "version": log.version, "task": log.task, "model": log.model, "source": file.name}
    made_with = {"time": log.time, "packages": log.packages}
    facts = {name: log.stated[name] for name in ("chat", "exemplars_as", "stop") if name in log.stated}
    run.start(config, {"log_sha256": digest, "log": made_by | made_with, "stated": log.stated, **facts})
    with run.writing():
        before = run.journal().samples
        run.append(sample for sample in samples if (sample.problem_id, sample.sample_index) not in before)
    engine = {"engine": "import", "source_sha256": digest, "column": config.replay_column, "stated": log.stated}
    sampling.write_manifest(run, "sampled", started, engine | made_by | made_with)
    written = run.read_json("manifest.json")
    imported = {"imported": {"on": started, "environment": written["environment"]}}
    run.write_json("manifest.json", written | imported | {"environment": {}, "sessions": []})
    return run


def _samples(problems: Sequence[Problem], matched: dict[str, list[Entry]], n_samples: int) -> list[Sample]:
    """Entry number i of a problem as its sample i; a sample that the log lacks is a failed one."""
    samples = []
    for problem in problems:
        for index, entry in enumerate(matched[problem.id]):
            samples.append(Sample(problem.id, index, **{name: getattr(entry, name) for name in _COPIED}))
        lacking = range(len(matched[problem.id]), n_samples)
        samples += [Sample(problem.id, index, None, error="not in the log") for index in lacking]
    return samples


def _verdicts(log: Log, problems: Sequence[Problem], matched: dict[str, list[Entry]]) -> Iterator[dict[str, Any]]:
    """The tool's own verdicts and ours beside them, one a row; of a vote, ``sample_index`` is None."""
    for problem in problems:
        entries = matched[problem.id]
        for index, entry in enumerate(entries):
            for scorer, right in entry.verdicts.items():
                rule = log.rules.get(scorer, NEAREST)
                ours = judge(entry.text, problem.answer, rule)[1]
                yield _verdict(problem, index, 1, scorer, right, rule, ours)
            for scorer, (size, right) in entry.votes.items():
                rule = log.rules.get(scorer, NEAREST)
                answers = [judge(voter.text, problem.answer, rule)[0] for voter in entries[index : index + size]]
                winner = Counter(answers).most_common(1)[0][0]  # of equals the first, as lm-eval has it
                yield _verdict(problem, None, size, scorer, right, rule, is_correct(winner, problem.answer))


def _verdict(
    problem: Problem, index: int | None, size: int, scorer: str, right: bool, rule: str, ours: bool
) -> dict[str, Any]:
    return {
        "problem_id": problem.id,
        "sample_index": index,
        "samples": size,
        "scorer": scorer,
        "correct": right,
        "rule": rule,
        "ours": ours,
    }


def _agreement(log: Log, verdicts: list[dict[str, Any]]) -> dict[str, Agreement]:
    """For each scorer: on how many verdicts the rule nearest to it says the same."""
    agreement = {}
    for scorer in dict.fromkeys(row["scorer"] for row in verdicts):
        rows = [row for row in verdicts if row["scorer"] == scorer]
        alike = sum(row["correct"] == row["ours"] for row in rows)
        agreement[scorer] = Agreement(rows[0]["rule"], alike, len(rows), scorer in log.rules)
    return agreement
