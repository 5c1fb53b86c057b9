"""A log into a run folder that the notebooks replay and compare.

>>> done = import_log("samples_gsm8k_cot_2026-11-30T08-16-21.jsonl", data_path="test.jsonl")
>>> done.results.headline
'gsm8k subset acc (lm-eval gsm8k_cot, test@1, 8-shot, 40 of 1319 problems) = 0.0250'
>>> done.agreement["strict-match"]
Agreement(rule='lm_eval_cot_strict', alike=40, of=40, exact=True)

A request that failed, and a sample that a problem lacks where others have it, are failed samples. What matches no
problem goes to ``unaligned.jsonl`` with the reason, the tool's verdicts to ``source_verdicts.jsonl`` beside ours, other
gold answers than ours to ``other_gold.jsonl``.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.answers import is_correct, judge
from gsm8k_nb.config import RunConfig
from gsm8k_nb.logs.aligning import Aligned, align, other_golds
from gsm8k_nb.logs.log import Entry, Log, LogError
from gsm8k_nb.logs.reading import read_log
from gsm8k_nb.records import Problem, Sample, Score
from gsm8k_nb.runs import Inputs, Run
from gsm8k_nb.sampling import manifest

_IN_CONFIG = ("temperature", "top_p", "top_k", "max_new_tokens")  # stated fields that are also parameters of ours
_NEEDED = {"shots": "number of exemplars", "temperature": "temperature"}  # what a label is made of
_COPIED = ("text", "finish_reason", "error", "prompt_tokens", "completion_tokens", "seconds")
NEAREST = "flexible"  # the rule laid beside a scorer that no rule of ours repeats


@dataclass(frozen=True)
class Verdict:
    """A tool's verdict on one text, or (``sample_index`` None) on the vote of the first ``samples``; and ``rule``'s."""

    problem_id: str
    sample_index: int | None
    samples: int
    scorer: str
    correct: bool
    rule: str
    ours: bool


@dataclass(frozen=True)
class Agreement:
    """How many of a tool's own verdicts ``rule`` gives as well; ``exact`` where that rule repeats the tool's."""

    rule: str
    alike: int
    of: int
    exact: bool = True


@dataclass(frozen=True)
class Imported:
    """An imported log: as read, its entries by problem, and the run made of it. ``other_gold`` has a row a problem."""

    log: Log
    aligned: Aligned
    results: summary.Results
    other_gold: list[dict[str, str]]
    verdicts: list[Verdict]

    @property
    def agreement(self) -> dict[str, Agreement]:
        """For each scorer: on how many verdicts the rule nearest to it says the same."""
        agreement = {}
        for scorer in dict.fromkeys(verdict.scorer for verdict in self.verdicts):
            its = [verdict for verdict in self.verdicts if verdict.scorer == scorer]
            alike = sum(verdict.correct == verdict.ours for verdict in its)
            agreement[scorer] = Agreement(its[0].rule, alike, len(its), scorer in self.log.rules)
        return agreement


def import_log(
    path: str | Path,
    *,
    model: str | None = None,
    protocol_label: str | None = None,
    column: str | None = None,
    results: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    **parameters: Any,
) -> Imported:
    """Read a log, match it to the data set, write its run folder and score it. A second import of a file adds nothing.

    ``model`` and ``protocol_label`` state what the log does not, and win over what it does; the next three parameters
    are those of ``read_log``, all others those of ``RunConfig`` (``dataset``, ``data_path``, ``outputs_dir``).
    LogError where the file is of no known kind, a statement lacks, or the log is not of this data set.
    """
    file = Path(path).expanduser()
    log = read_log(file, column=column, results=results, columns=columns)
    replayed = {"sampler": "replay", "replay_path": str(path), "replay_column": column, "prompt": "as_stored"}
    config = RunConfig.checked(parameters | replayed | {"protocol_label": protocol_label})
    source = data.open_dataset(config.dataset, config=config.dataset_config, path=config.data_path)
    aligned = align(log, source.problems)
    problems = [problem for problem in source.problems if problem.id in aligned.entries]
    golds = _checked_golds(file.name, log, source, aligned, problems)
    n_samples = max(len(entries) for entries in aligned.entries.values())
    whole_top = problems == source.problems[: len(problems)]
    stated = {
        "model": model or log.model,
        "protocol_label": _label(file.name, log, n_samples, protocol_label, model),
        "limit": len(problems) if whole_top and len(problems) < len(source.problems) else None,
        "n_samples": n_samples,
        **{name: log.stated[name] for name in _IN_CONFIG if name in log.stated},
    }
    config = RunConfig.checked(parameters | replayed | stated)
    run = _write(file, log, config, source, _samples(problems, aligned, n_samples), problems)
    scores = summary.score_run(run, config, problems)
    verdicts = list(_verdicts(log, problems, aligned, scores))
    rows = {"unaligned": aligned.unaligned, "source_verdicts": map(asdict, verdicts), "other_gold": golds}
    for name, of_file in rows.items():
        run.write_text(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in of_file))
    return Imported(log, aligned, summary.summarise(run, config), golds, verdicts)


def _checked_golds(
    name: str, log: Log, source: data.Dataset, aligned: Aligned, problems: list[Problem]
) -> list[dict[str, str]]:
    """The log's other gold answers. LogError where it cannot be of this data set: no problem, or most answers other."""
    where = f"{source.label} ({source.config}, {source.split})"
    if not any(entry.question or entry.index is not None for entry in log.entries):
        raise LogError(f"{name}: its {log.tool} rows state no question; name columns with --question and --completion")
    if not problems:
        raise LogError(
            f"{name}: none of its {len(log.entries)} completions is of a problem of {where}; "
            f"its first question is {log.entries[0].question[:80]!r}"
        )
    golds = other_golds(problems, aligned)
    if 2 * len(golds) > len(problems):
        theirs, ours = golds[0]["theirs"], f"{golds[0]['ours']} for {golds[0]['problem_id']}"
        raise LogError(
            f"{name}: {len(golds)} of {len(problems)} gold answers are not those of {where}, as {theirs} in place of "
            f"{ours}; name the data set that the log is of, and check that --index counts its rows from 0"
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
    """The run folder with its configuration, problems, samples and manifest: this machine only imported."""
    started = manifest.now()
    run = sampling.begin(config, source, problems)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    made = {name: getattr(log, name) for name in ("tool", "version", "task", "model", "time", "packages")}
    made["source"] = file.name
    facts: dict[str, Any] = {name: log.stated[name] for name in ("chat", "exemplars_as", "stop") if name in log.stated}
    run.start(config, Inputs(log_sha256=digest, log=made, stated=log.stated, **facts))
    with run.writing():
        before = run.journal().samples
        run.append(sample for sample in samples if (sample.problem_id, sample.sample_index) not in before)
    engine = {"engine": "import", "source_sha256": digest, "column": config.replay_column, "stated": log.stated}
    manifest.Session(run, {}).write("sampled", engine | made)
    run.update_manifest(
        "sampled", imported={"on": started, "with": manifest.environment()}, environment={}, sessions=[]
    )
    return run


def _samples(problems: Sequence[Problem], aligned: Aligned, n_samples: int) -> list[Sample]:
    """Entry number i of a problem as its sample i; a sample that the log lacks is a failed one."""
    samples = []
    for problem in problems:
        entries = aligned.entries[problem.id]
        for index, entry in enumerate(entries):
            samples.append(Sample(problem.id, index, **{name: getattr(entry, name) for name in _COPIED}))
        lacking = range(len(entries), n_samples)
        samples += [Sample(problem.id, index, None, error="not in the log") for index in lacking]
    return samples


def _verdicts(log: Log, problems: Sequence[Problem], aligned: Aligned, scores: Sequence[Score]) -> Iterator[Verdict]:
    """The tool's own verdicts with ours beside them, on texts and on votes."""
    scored = {(score.problem_id, score.sample_index, score.rule): score for score in scores}
    for problem in problems:
        entries = aligned.entries[problem.id]
        read = partial(_read, scored, problem, entries)
        for index, entry in enumerate(entries):
            for scorer, right in entry.verdicts.items():
                rule = log.rules.get(scorer, NEAREST)
                yield Verdict(problem.id, index, 1, scorer, right, rule, read(index, rule)[1])
            for scorer, (size, right) in entry.votes.items():
                rule = log.rules.get(scorer, NEAREST)
                answers = Counter(read(voter, rule)[0] for voter in range(len(entries))[index : index + size])
                winner = answers.most_common(1)[0][0]  # of equals the first, as lm-eval has it
                yield Verdict(problem.id, None, size, scorer, right, rule, is_correct(winner, problem.answer))


def _read(
    scored: dict[tuple[str, int, str], Score], problem: Problem, entries: list[Entry], index: int, rule: str
) -> tuple[Decimal | None, bool]:
    """The answer that a rule reads from a text, and whether it is right: as scored already, or read now."""
    score = scored.get((problem.id, index, rule))
    if score is None:
        return judge(entries[index].text, problem.answer, rule)
    return score.predicted, bool(score.correct)
