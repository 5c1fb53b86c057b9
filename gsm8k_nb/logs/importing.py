"""A log into a run folder that the notebooks replay and compare.

>>> done = import_log("samples_gsm8k_cot_2026-11-30T08-16-21.jsonl", data_path="test.jsonl")
>>> done.headline
'gsm8k subset acc (lm-eval gsm8k_cot, test@1, 8-shot, 40 of 1319 problems) = 0.0250'
>>> done.agreement["strict-match"]
Agreement(rule='lm_eval_cot_strict', alike=40, of=40)

Completions are matched to problems by the text of the question alone; what matches none goes to ``unaligned.jsonl``
with the reason. A request that failed, and a sample that a problem lacks where others have it, are failed samples.
"""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.answers import judge
from gsm8k_nb.config import RunConfig
from gsm8k_nb.logs import Entry, Log, LogError
from gsm8k_nb.logs.reading import read_log
from gsm8k_nb.logs.rows import Columns
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import manifest

_IN_CONFIG = ("temperature", "top_p", "top_k", "max_new_tokens")  # stated fields that are also parameters of ours
_NEEDED = {"shots": "number of exemplars", "temperature": "temperature"}  # what a label is made of
_COPIED = ("text", "finish_reason", "error", "prompt_tokens", "completion_tokens", "seconds")
_LIKE = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})


@dataclass(frozen=True)
class Agreement:
    """How many of a tool's own verdicts ``rule`` gives as well."""

    rule: str
    alike: int
    of: int


@dataclass(frozen=True)
class Imported:
    """What an import made.

    ``failed``, ``unaligned`` and ``within`` count completions; ``within`` those whose question stood in a longer text.
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
    outputs_dir: str = "outputs",
) -> Imported:
    """Read a log, match it to the data set, write its run folder and score it. A second import of a file adds nothing.

    ``protocol_label`` and ``model`` state what the log does not, and win over what it does. LogError where neither
    states it, where no completion matches a problem, or where the file is of no known kind.
    """
    file = Path(path).expanduser()
    log = read_log(file, column=column, columns=columns)
    source = data.open_dataset(dataset, config=dataset_config, path=data_path)
    matched, unaligned = align(log, source.problems)
    if not matched:
        raise LogError(
            f"{file.name}: none of its {len(log.entries)} completions is of a problem of {source.label} "
            f"({source.config}, {source.split}); its first question is {log.entries[0].question[:80]!r}"
        )
    n_samples = max(len(entries) for entries in matched.values())
    label = _label(file.name, log, n_samples, protocol_label, model)
    problems = [problem for problem in source.problems if problem.id in matched]
    whole_top = problems == source.problems[: len(problems)]
    stated = {name: log.stated[name] for name in _IN_CONFIG if name in log.stated}
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
            "protocol_label": label,
            "outputs_dir": outputs_dir,
            **stated,
        }
    )
    run = _write(file, log, config, source, _samples(problems, matched, n_samples), problems)
    run.write_text("unaligned.jsonl", _lines(unaligned))
    run.write_text("source_verdicts.jsonl", _lines(_verdicts(problems, matched)))
    summary.score_run(run, config, problems)
    results = summary.summarise(run, config)
    return Imported(
        run,
        config,
        results.headline,
        len(problems),
        n_samples,
        results.metrics["health"]["failed"],
        len(unaligned),
        _within(problems, matched),
        _agreement(log, problems, matched),
    )


def align(log: Log, problems: Sequence[Problem]) -> tuple[dict[str, list[Entry]], list[dict[str, Any]]]:
    """A log's entries by problem id, in their order, and a row with the reason for each that matches no problem."""
    find = _finder(problems)
    matched: dict[str, list[Entry]] = {}
    unaligned = []
    for entry in log.entries:
        found = find(entry.question)
        if len(found) == 1:
            matched.setdefault(found[0], []).append(entry)
        else:
            reason = f"fits {', '.join(found)}" if found else "no problem has this question"
            unaligned.append({"reason": reason} | asdict(entry))
    return matched, unaligned


def normal(text: str) -> str:
    """A question as it is compared: Unicode forms, quotes, dashes, case and blanks made alike, numbers untouched."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_LIKE).casefold().split())


def _finder(problems: Sequence[Problem]) -> Callable[[str], list[str]]:
    """The ids of the problems that have a question, or, where none has it, whose question stands within the text."""
    by_text: dict[str, list[str]] = {}
    for problem in problems:
        by_text.setdefault(normal(problem.question), []).append(problem.id)
    known: dict[str, list[str]] = {}

    def find(question: str) -> list[str]:
        if question not in known:
            wanted = normal(question)
            inside = [one for text, ids in by_text.items() if text in wanted for one in ids]
            known[question] = by_text.get(wanted) or inside
        return known[question]

    return find


def _within(problems: Sequence[Problem], matched: dict[str, list[Entry]]) -> int:
    pairs = [(normal(problem.question), entry.question) for problem in problems for entry in matched[problem.id]]
    return sum(normal(theirs) != ours for ours, theirs in pairs)


def _label(name: str, log: Log, n_samples: int, given: str | None, model: str | None) -> str:
    """How a headline states the protocol: as given, else as the log does. LogError names all that neither states."""
    lacking = [word for field, word in _NEEDED.items() if field not in log.stated and given is None]
    ways = ["--protocol-label TEXT, as in 'test@1, 8-shot CoT'"] if lacking else []
    if not (model or log.model):
        lacking, ways = [*lacking, "model"], [*ways, "--model NAME"]
    if lacking:
        raise LogError(f"{name}: does not state its {' and its '.join(lacking)}; give {' and '.join(ways)}")
    if given is not None:
        return given
    temperature = log.stated["temperature"]
    metric = "test@1" if temperature == 0 and n_samples == 1 else f"avg@{n_samples}, T={temperature:g}"
    return f"{' '.join(filter(None, (log.tool, log.task)))}, {metric}, {log.stated['shots']}-shot"


def _write(
    file: Path, log: Log, config: RunConfig, source: data.Dataset, samples: list[Sample], problems: list[Problem]
) -> Run:
    """The run folder with its configuration, problems, samples and manifest."""
    started = manifest.now()
    run = sampling.begin(config, source, problems)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    made_by = {"tool": log.tool, "version": log.version, "task": log.task, "model": log.model}
    told = {name: log.stated[name] for name in ("chat", "stop") if name in log.stated}
    run.start(config, {"log_sha256": digest, "log": made_by, "stated": log.stated, **told})
    with run.writing():
        before = run.journal().samples
        run.append(one for one in samples if (one.problem_id, one.sample_index) not in before)
    engine = {"engine": "import", "source": file.name, "source_sha256": digest, "column": config.replay_column}
    sampling.write_manifest(run, "sampled", started, engine | made_by | {"stated": log.stated})
    return run


def _samples(problems: Sequence[Problem], matched: dict[str, list[Entry]], n_samples: int) -> list[Sample]:
    """Entry number i of a problem as its sample i; a sample that the log lacks is a failed one."""
    samples = []
    for problem in problems:
        for index, entry in enumerate(matched[problem.id]):
            known = {name: getattr(entry, name) for name in _COPIED}
            samples.append(Sample(problem.id, index, **known))
        lacking = range(len(matched[problem.id]), n_samples)
        samples += [Sample(problem.id, index, None, error="not in the log") for index in lacking]
    return samples


def _verdicts(problems: Sequence[Problem], matched: dict[str, list[Entry]]) -> list[dict[str, Any]]:
    """The tool's own verdicts, one a row."""
    return [
        {"problem_id": problem.id, "sample_index": index, "scorer": scorer, "correct": correct}
        for problem in problems
        for index, entry in enumerate(matched[problem.id])
        for scorer, correct in entry.verdicts.items()
    ]


def _agreement(log: Log, problems: Sequence[Problem], matched: dict[str, list[Entry]]) -> dict[str, Agreement]:
    """For each scorer that a rule of ours repeats: on how many completions the two say the same."""
    found = {}
    for scorer, rule in log.rules.items():
        pairs = [
            (entry.verdicts[scorer], judge(entry.text, problem.answer, rule)[1])
            for problem in problems
            for entry in matched[problem.id]
            if scorer in entry.verdicts
        ]
        found[scorer] = Agreement(rule, sum(theirs == ours for theirs, ours in pairs), len(pairs))
    return found


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
