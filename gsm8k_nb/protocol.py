"""Whose protocol made the texts of a run, and the words that a headline states it in."""

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from gsm8k_nb.config import SETTINGS, RunConfig
from gsm8k_nb.runs import Inputs


class Facts(BaseModel):
    """Named facts that cannot be changed; ``facts["name"]`` is ``facts.name``."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str) -> Any:
        return getattr(self, name, None)


class Protocol(Facts):
    """Every field that names the protocol; two runs are alike where these are equal. None is not known."""

    label: str
    metric: str
    shots: int | None = None
    n_samples: int
    prompt: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_new_tokens: int | None = None
    chat: bool | None = None
    exemplars_as: str | None = None
    stop: list[str] | None = None
    prompt_sha256: str | None = None
    settings: dict[str, Any] = {}  # whatever else the parameters state of how completions are made
    headline_rule: str


class Source(NamedTuple):
    """Who made the texts: a label that was stated for them or None, the parameters they were made with, the inputs."""

    label: str | None
    config: RunConfig
    inputs: Inputs


def made_by(config: RunConfig, inputs: Inputs) -> Source:
    """The source of a run's texts: a replay has the protocol of its source, a replay of a replay that of the first."""
    label = config.protocol_label
    while source := inputs.replay_config:
        config = RunConfig.stored(source)
        inputs = Inputs(**source.get("inputs") or {})
        label = label or config.protocol_label
    return Source(label, config, inputs)


def headline_rule(config: RunConfig, inputs: Inputs) -> str:
    """The rule that ``auto`` stands for: ``strict`` where the prompt asks for ``####``, else ``flexible``."""
    if config.headline_rule != "auto":
        return config.headline_rule
    return "strict" if made_by(config, inputs).config.form.marked else "flexible"


def protocol_of(config: RunConfig, inputs: Inputs) -> Protocol:
    """The protocol of a run's texts, and the rule that heads its result.

    ``test@1`` is one greedy sample (Cobbe et al. 2021), anything drawn at random a mean over N, at its temperature.
    Where the protocol was stated, the only fields known are those that an imported log states too.
    """
    label, made, source = made_by(config, inputs)
    known = source.stated or {} if label else made.model_dump() | {"shots": made.n_shots}
    drawn = f"avg@{config.n_samples}, T={made.temperature:g}"
    metric = label or ("test@1" if made.temperature == 0 else drawn)
    read_from = {} if config.answer_from == "text" else {"answer_from": config.answer_from}
    return Protocol(
        label=label or ", ".join([metric, f"{made.n_shots}-shot CoT", *_of_reasoning(made, config.answer_from)]),
        metric=metric,
        n_samples=config.n_samples,
        **{name: known.get(name) for name in ("shots", "prompt", "temperature", "top_p", "top_k", "max_new_tokens")},
        chat=source.chat,
        exemplars_as=source.exemplars_as,
        stop=source.stop,
        prompt_sha256=None if label else source.prompt_sha256,
        settings={name: known[name] for name in SETTINGS if known.get(name) is not None} | read_from,
        headline_rule=headline_rule(config, inputs),
    )


def _of_reasoning(made: RunConfig, answer_from: str) -> list[str]:
    """What a headline says of reasoning."""
    words = [] if made.enable_thinking is None else ["thinking" if made.enable_thinking else "no thinking"]
    words += [] if (most := made.max_thinking_tokens) is None else [f"at most {most} tokens of thinking"]
    return [*words, "read from the reasoning too"] if answer_from == "reasoning" else words
