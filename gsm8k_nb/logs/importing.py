"""A log into a run folder that the notebooks replay and compare.

>>> import_log("samples_gsm8k_cot_2026-11-30T08-16-21.jsonl", data_path="test.jsonl").agreement["strict-match"]
Agreement(rule='lm_eval_cot_strict', alike=40, of=40, exact=True)

A request that failed, and a sample that a problem lacks where others have it, are failed samples. What matches no
problem goes to ``unaligned.jsonl`` with the reason, the tool's verdicts to ``source_verdicts.jsonl`` beside ours, other
gold answers than ours to ``other_gold.jsonl``.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from jinja2 import Template

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.answers import is_correct, judge
from gsm8k_nb.config import RunConfig
from gsm8k_nb.logs.aligning import Aligned, align, other_golds
from gsm8k_nb.logs.files import LogError
from gsm8k_nb.logs.reading import COLUMNS, Log, read_log
from gsm8k_nb.places import own_asset
from gsm8k_nb.records import Problem, Sample, Score
from gsm8k_nb.runs import Inputs, Run, sha256_of
from gsm8k_nb.sampling import manifest

_IN_CONFIG = ("temperature", "top_p", "top_k", "max_new_tokens")  # stated fields that are also parameters of ours
_NEEDED = {"shots": "number of exemplars", "temperature": "temperature"}  # what a label is made of
_COPIED = ("text", "finish_reason", "error", "prompt_tokens", "completion_tokens", "seconds")
NEAREST = "flexible"  # the rule laid beside a scorer that no rule of ours repeats


@dataclass(frozen=True)
class Verdict:
    """A tool's verdict on one text, or (``sample_index`` None) on the vote of ``samples`` texts; and ``rule``'s."""

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
        of = Counter((verdict.scorer, verdict.rule) for verdict in self.verdicts)
        alike = Counter((verdict.scorer, verdict.rule) for verdict in self.verdicts if verdict.correct == verdict.ours)
        return {name: Agreement(rule, alike[name, rule], n, name in self.log.rules) for (name, rule), n in of.items()}


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
    column_of_texts = column or (columns or {}).get("completion")  # another column of a file is another run
    replayed = {"sampler": "replay", "replay_path": str(path), "replay_column": column_of_texts, "prompt": "as_stored"}
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
    run = _write(file, log, config, source, problems, aligned)
    verdicts = list(_verdicts(log, problems, aligned, summary.score_run(run, config, problems)))
    rows = {"unaligned": aligned.unaligned, "source_verdicts": map(asdict, verdicts), "other_gold": golds}
    for name, of_file in rows.items():
        run.write_text(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in of_file))
    return Imported(log, aligned, summary.summarise(run, config), golds, verdicts)


def _checked_golds(
    name: str, log: Log, source: data.Dataset, aligned: Aligned, problems: list[Problem]
) -> list[dict[str, str]]:
    """The log's other gold answers. LogError where it cannot be of this data set: no problem, or most answers other."""
    where = f"{source.label} ({source.config}, {source.split})"
    if not problems:
        raise LogError(
            f"{name}: none of its {len(log.entries)} completions is of a problem of {where}; its first question is "
            f"{log.entries[0].question[:80]!r}; --question and --completion name other columns"
        )
    golds = other_golds(problems, aligned)
    if 2 * len(golds) > len(problems):
        raise LogError(
            f"{name}: {len(golds)} of {len(problems)} gold answers are not those of {where}, as {golds[0]}; name the "
            "data set that the log is of, and check that --index counts its rows from 0"
        )
    return golds


def _label(name: str, log: Log, n_samples: int, label: str | None, model: str | None) -> str:
    """How a headline states the protocol: as given, else as the log does. LogError names all that neither states."""
    lacking = [] if label else [word for field, word in _NEEDED.items() if field not in log.stated]
    lacking += [] if model or log.model else ["model"]
    if lacking:
        ways = "--protocol-label TEXT, as in 'test@1, 8-shot CoT', and --model NAME say what is not known"
        raise LogError(f"{name}: does not state its {' and its '.join(lacking)}; {ways}")
    if label:
        return label
    temperature = log.stated["temperature"]
    metric = "test@1" if temperature == 0 and n_samples == 1 else f"avg@{n_samples}, T={temperature:g}"
    return f"{' '.join(filter(None, (log.tool, log.task)))}, {metric}, {log.stated['shots']}-shot"


def _write(
    file: Path, log: Log, config: RunConfig, source: data.Dataset, problems: list[Problem], aligned: Aligned
) -> Run:
    """The run folder with its configuration, problems, samples and manifest: this machine only imported."""
    started, digest = manifest.now(), sha256_of(file)
    samples = [sample for problem in problems for sample in _samples(problem, aligned, config.n_samples)]
    before = Run(config.run_folder).journal().samples
    known = [before.get((sample.problem_id, sample.sample_index)) for sample in samples]
    if any(old and old.text != sample.text for old, sample in zip(known, samples, strict=True)):
        way_out = "choose another --outputs-dir, or remove that folder"
        raise LogError(f"{config.run_folder} holds this file as it was imported with other options; {way_out}")
    run = sampling.begin(config, source, problems)
    made = {name: getattr(log, name) for name in ("tool", "version", "task", "model", "time", "packages")}
    made["source"] = file.name
    facts: dict[str, Any] = {name: log.stated[name] for name in ("chat", "exemplars_as", "stop") if name in log.stated}
    run.start(config, Inputs(log_sha256=digest, log=made, stated=log.stated, **facts))
    with run.writing():
        run.append(sample for old, sample in zip(known, samples, strict=True) if not old)
    engine = {"engine": "import", "source_sha256": digest, "column": config.replay_column, "stated": log.stated}
    manifest.Session(run, {}).write("sampled", engine | made)
    imported = {"on": started, "with": manifest.environment()}
    run.update_manifest("sampled", imported=imported, environment={}, sessions=[])
    return run


def _samples(problem: Problem, aligned: Aligned, n: int) -> list[Sample]:
    """Entry number i of a problem as its sample i; a sample that the log lacks is a failed one."""
    values = [{name: getattr(entry, name) for name in _COPIED} for entry in aligned.entries[problem.id]]
    values += [{"text": None, "error": "not in the log"}] * (n - len(values))
    return [Sample(problem.id, index, **each) for index, each in enumerate(values)]


def _verdicts(log: Log, problems: Sequence[Problem], aligned: Aligned, scores: Sequence[Score]) -> Iterator[Verdict]:
    """The tool's own verdicts with ours beside them, on texts and on votes."""
    scored = {(score.problem_id, score.sample_index, score.rule): score for score in scores}

    def answer(problem: Problem, index: int, rule: str) -> tuple[Decimal | None, bool]:
        if score := scored.get((problem.id, index, rule)):  # the run may not be scored by this rule
            return score.predicted, bool(score.correct)
        return judge(aligned.entries[problem.id][index].text, problem.answer, rule)

    for problem in problems:
        entries = aligned.entries[problem.id]
        for index, entry in enumerate(entries):
            for scorer, right in entry.verdicts.items():
                rule = log.rules.get(scorer, NEAREST)
                if size := log.voters.get(scorer):
                    voters = range(len(entries))[index : index + size]
                    votes = Counter(answer(problem, voter, rule)[0] for voter in voters)
                    ours = is_correct(votes.most_common(1)[0][0], problem.answer)  # of equals the first, as lm-eval
                    yield Verdict(problem.id, None, len(voters), scorer, right, rule, ours)
                else:
                    yield Verdict(problem.id, index, 1, scorer, right, rule, answer(problem, index, rule)[1])


def import_logs(files: Sequence[str], **stated: Any) -> None:
    """The command ``import``: each file into a run folder, and what was found in it."""
    columns = {name: stated.pop(name) for name in COLUMNS if name in stated}
    for file in files:
        print(report(import_log(file, columns=columns, **stated)))


def report(done: Imported) -> str:
    """What an import found, what of it needs a look, and the command that opens it in the notebook."""
    run, config = done.results.run, done.results.config
    command = ["papermill", "notebooks/eval.ipynb", "out.ipynb", "-p", "sampler", "replay", "-p", "prompt", "as_stored"]
    command += ["-r", "replay_path", str(run.folder), "-r", "model", config.model]
    for name in ("dataset", "dataset_config", "data_path", "n_samples"):  # the problems are those of the folder
        if (value := getattr(config, name)) != type(config).model_fields[name].default:
            command += ["-r" if name == "data_path" else "-p", name, str(value)]
    return Template(own_asset("imported.txt.jinja")).render(
        done=done,
        folder=run.folder,
        n=len(done.results.problems),
        failed=Counter(sample.error for sample in run.journal().samples.values() if sample.error),
        apart=[verdict for verdict in done.verdicts if verdict.correct != verdict.ours],
        next=shlex.join(command),
    )
