"""inspect_ai: ``.eval`` files and JSON logs, both through its own reader (the extra ``inspect``).

    EvalLog(eval=EvalSpec(task="gsm8k", model="openai/gpt-4o", task_args={"fewshot": 10}, ...),
            samples=[EvalSample(id=1, epoch=1, input="Janet's ...", output=..., scores={"match": ...}), ...])

An epoch is a sample index. A sample with an error is a failed request, not a wrong answer.
"""

from pathlib import Path
from typing import Any

from gsm8k_nb.logs import Entry, Log, LogError, finish_reason, sampling_fields, verdicts

TOOL = "inspect"
_SHOTS = ("fewshot", "num_fewshot", "n_shots", "shots")  # names of a task's argument for the number of exemplars


def read(path: Path, kind: str) -> Log:
    """The log in ``path``; ``kind`` is ``eval`` or ``json``. LogError where inspect_ai is missing or cannot read it."""
    log = _read(path, kind)
    if not log.samples:
        raise LogError(f"{path.name}: holds no samples (status {log.status!r})")
    ordered = sorted(log.samples, key=lambda sample: sample.epoch)
    return Log(
        TOOL,
        [entry for sample in ordered for entry in _entries(sample)],
        model=log.eval.model,
        task=log.eval.task,
        version=log.eval.packages.get("inspect_ai"),
        stated=_stated(log),
        rules={one.name: "inspect" for one in log.eval.scorers or [] if _is_numeric_match(one)},
    )


def _read(path: Path, kind: str) -> Any:
    try:
        from inspect_ai.log import read_eval_log
    except ModuleNotFoundError as error:
        raise LogError(
            f"{path.name}: a log of inspect is read by inspect_ai itself: pip install 'gsm8k-nb[inspect]'"
        ) from error
    try:
        return read_eval_log(str(path), resolve_attachments=True, format=kind)
    except Exception as error:
        # Its reader raises errors of zip files, JSON, validation and its own; all mean that the file is not whole.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise LogError(f"{path.name}: inspect_ai cannot read it: {reason}") from error


def _entries(sample: Any) -> list[Entry]:
    place = f"sample {sample.id}, epoch {sample.epoch}"
    if sample.error is not None:
        return [Entry(_question(sample.input), None, place, error=sample.error.message or "failed")]
    usage, choices = sample.output.usage, sample.output.choices
    if not choices:
        return [Entry(_question(sample.input), None, place, error=sample.output.error or "no output")]
    scores = {name: score.value for name, score in (sample.scores or {}).items()}
    return [
        Entry(
            _question(sample.input),
            sample.output.completion if index == 0 else choice.message.text,
            place,
            finish_reason=finish_reason(choice.stop_reason),
            prompt_tokens=usage.input_tokens if usage else None,
            completion_tokens=usage.output_tokens if usage and len(choices) == 1 else None,
            seconds=sample.output.time,
            verdicts=verdicts(scores) if index == 0 else {},
        )
        for index, choice in enumerate(choices)
    ]


def _question(said: Any) -> str:
    """The input as text: of a conversation, its last message by the user."""
    if isinstance(said, str):
        return said
    return next((message.text for message in reversed(said) if message.role == "user"), "")


def _stated(log: Any) -> dict[str, Any]:
    settings = {}
    for config in (log.eval.model_generate_config, log.plan.config):  # the plan's is the one in force
        settings |= {name: value for name, value in config.model_dump().items() if value is not None}
    stated = sampling_fields(settings)
    if settings.get("stop_seqs"):
        stated["stop"] = list(settings["stop_seqs"])
    shots = [log.eval.task_args[name] for name in _SHOTS if isinstance(log.eval.task_args.get(name), int)]
    return stated | ({"shots": int(shots[0])} if shots else {})


def _is_numeric_match(scorer: Any) -> bool:
    return scorer.name.rpartition("/")[2] == "match" and (scorer.options or {}).get("numeric") is True
