"""What the parameters of all notebooks have in common: where they are read from, and what is said of a wrong one.

>>> RunConfig.checked({"temprature": 0.5})
ConfigError: unknown parameter 'temprature': did you mean 'temperature'?
"""

import ast
import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Self, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from gsm8k_nb.places import own_table
from gsm8k_nb.plain_yaml import PlainYamlError, read_yaml
from gsm8k_nb.texts import one_line

_SECRET = re.compile(r"[?#@\s]|\b(sk|gsk|hf|xai|nvapi)[-_]|\w{24}")  # where a key may be in an address
_KEY_NAMES = re.compile(r"api.?key|^key$|secret|password|auth|(api|access|hf|bearer).?token|^token$")
MISSING = {"", "none", "null", "~"}
_NEAR = 0.75  # likeness of spelling, by difflib, from which one name is taken for another misspelt
_MEANT = own_table("other_names.toml")
_WORDS = own_table("parameters.toml")
_WANTED: dict[str, str] = _WORDS["wanted"]
LONGEST_FILE = 1_000_000  # bytes of a parameter file; what is longer is some other file
_NOTEBOOK_NAMES = re.compile(r"__.*|_|_i{1,3}|_i?\d+|_[ido]h|_exit_code|_VSCODE.*|PAPERMILL_.*_PATH")  # no parameters


class ConfigError(ValueError):
    """A parameter is unknown, of the wrong type or out of range. The message names it and what is allowed."""


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
    except (UnicodeDecodeError, PlainYamlError) as error:
        raise ConfigError(one_line(error, 400)) from None
    if isinstance(values, dict) and all(isinstance(name, str) for name in values):
        return values
    if values is None:
        return {}
    kind = f"more than {LONGEST_FILE:,} bytes" if isinstance(values, bytes) else type(values).__name__
    raise ConfigError(f"must be a mapping of parameters, got {kind}")


class Parameters(BaseModel):
    """What the parameters of all notebooks have in common: unknown names are refused, values read by their type."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Give each field its line of help."""
        for name, line in _WORDS[cls.__name__].items():
            cls.model_fields[name].description = line

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
            if NoneType in kinds and value.strip().lower() in MISSING:
                return None
            if {get_origin(kind) for kind in kinds} & {list, dict} and value.lstrip()[:1] in ("[", "{"):
                with suppress(PlainYamlError):  # as papermill hands on what stands on its command line
                    return read_yaml(value)
            if int in kinds:  # 1e3 is text to YAML
                with suppress(ValueError):
                    return int(number) if (number := float(value)).is_integer() else number
            return value.strip() if bool in kinds else value
        return value

    @classmethod
    def from_parameters(cls, namespace: dict[str, Any]) -> Self:
        """The parameters in a notebook's ``globals()``. ConfigError where a name that was stated as one is none.

        papermill only warns of a misspelt key and injects it, so the check is made on what was injected and on what
        stands in the parameters cell as last run; whatever else a person left in the kernel is passed over. A namespace
        without IPython's history of cells (``In``) holds nothing but parameters.
        """
        fields = set(cls.model_fields)
        stated, before = _stated_names(namespace.get("In"), fields)
        for name in set(namespace) - stated - before - fields if stated else ():
            near = get_close_matches(name, fields, n=1, cutoff=_NEAR)
            if near and _is_data(namespace[name]):
                print(f"passed over: {name!r}, which the parameters cell does not hold (did you mean {near[0]!r}?)")
        return cls.checked({
            name: value for name, value in namespace.items()
            if (name in stated or (name in fields or not stated) and _is_data(value))
            and not (_NOTEBOOK_NAMES.fullmatch(name) or (name, type(value)) in (("In", list), ("Out", dict)))
        })  # fmt: skip

    @classmethod
    def checked(cls, values: dict[str, Any], context: dict[str, Any] | None = None) -> Self:
        """``cls(**values)`` with every fault in one ``ConfigError``, a line each, with the nearest right name."""
        try:
            return cls.model_validate(values, context=context)
        except ValidationError as error:
            lines = [_explain(fault, cls) for fault in error.errors()]
            # "from None": pydantic's own message repeats each fault with a link, and hides ours.
            raise ConfigError("\n".join(lines)) from None


def _stated_names(cells: Any, fields: set[str]) -> tuple[set[str], set[str]]:
    """The names in the parameters cells, as last run, and in papermill's after them; and those of earlier runs.

    ``cells`` is IPython's ``In``. The parameters cell assigns parameters with their type, as in ``limit: int = None``;
    papermill's begins with ``# Parameters``. Both are empty where there is no such cell.
    """
    stated: set[str] = set()
    injected: set[str] = set()
    before: set[str] = set()
    for source in cells if isinstance(cells, list) else ():
        try:
            body = ast.parse(source).body
        except (TypeError, ValueError, SyntaxError, RecursionError):
            continue
        typed = {ast.unparse(step.target) for step in body if isinstance(step, ast.AnnAssign)}
        targets = [target for step in body if isinstance(step, ast.Assign) for target in step.targets]
        names = typed | {target.id for target in targets if isinstance(target, ast.Name)}
        if typed & fields:
            if 2 * len(names & stated & fields) >= len(stated & fields):  # the cell again, and not one that adds to it
                before, stated, injected = before | stated | injected, set(), set()
            stated |= names
        elif source.lstrip().startswith("# Parameters"):
            before, injected = before | injected, names
    return (stated | injected if stated else set()), before


def _is_data(value: Any) -> bool:
    """Whether a value is of the kinds papermill can inject: JSON-like data, NumPy scalars included."""
    if isinstance(value, list | tuple | set | dict):
        return all(map(_is_data, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, str | int | float) or type(value).__module__ == "numpy"


def _explain(fault: Any, cls: type[Parameters]) -> str:
    """One line for one fault: the parameter, the value and what is allowed."""
    name, kind = str(fault["loc"][0]) if fault["loc"] else "", fault["type"]
    if kind == "extra_forbidden":
        return f"unknown parameter {name!r}: {_instead_of(name, cls)}"
    wanted = _WANTED.get(kind) or _WANTED.get(kind.split("_")[0]) or fault["msg"]
    message = str(fault.get("ctx", {}).get("error") or wanted)
    if not name:
        return message
    field, value = cls.model_fields[name], fault["input"]
    if name == "api_key_env" or (name == "base_url" and _SECRET.search(str(value))):  # it may be the key itself
        return f"parameter {name!r}: must be {field.description}; what was typed may hold a key, so it is not shown"
    if name == "split" and value in ("train", "socratic"):
        message = "only 'test' is scored: exemplars come from train, scores from test"
    elif kind == "string_pattern_mismatch":
        message = f"must be {field.description}"
    shown = "a number of thousands of digits"
    with suppress(ValueError):  # Python refuses to write out so many
        shown = repr(value)
    message = message if shown in message else f"{message}, got {one_line(shown, 100)}"
    choices = [choice for choice in getattr(field.annotation, "__args__", ()) if isinstance(choice, str)]
    near = get_close_matches(shown.strip("'"), choices, n=1)
    return f"parameter {name!r}: {message}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _instead_of(name: str, cls: type[Parameters]) -> str:
    """What to write for a name that is no parameter: one near in spelling or meaning, if there is any."""
    if _KEY_NAMES.search(name.lower()) and "api_key_env" in cls.model_fields:
        return (
            "give the NAME of the environment variable that holds the key, as in api_key_env: OPENAI_API_KEY. "
            "A key typed as a parameter is in the notebook now: delete it, renew it"
        )
    meant = _MEANT.get(name.lower())
    near = [meant] if meant in cls.model_fields else get_close_matches(name.lower(), cls.model_fields, 1, _NEAR)
    if near:
        return f"did you mean {near[0]!r}?"
    return "the parameters cell of the notebook lists all that there are"
