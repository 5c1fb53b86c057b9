"""How a run's samples came about: what its manifest knows, and whose they are."""

from typing import Any

import pandas as pd

from gsm8k_nb.config import RunConfig
from gsm8k_nb.protocol import Source, made_by
from gsm8k_nb.runs import Run

_NO_FACTS = ("source_config", "stored", "stated")  # of an engine: stated elsewhere


def made_with(run: Run) -> pd.DataFrame:
    """How the samples came about, from the manifest: engine, code, machine, sessions.

    Of samples that others made it says where they came from: when, where and by which packages they were read in here
    is no fact about them.
    """
    manifest = run.read_json("manifest.json")
    engine = {name: value for name, value in manifest.get("engine", {}).items() if name not in _NO_FACTS}
    if run.read_json("config.json").get("sampler") == "replay":
        known = {"engine": "replay", "made": "elsewhere; what is not stated here, only the source can say"}
        return facts(known | {"source": "not recorded"} | (source_of(run).inputs.log or {}) | engine)
    environment, sessions = manifest.get("environment", {}), manifest.get("sessions", [])
    tokens = [f"{count:,} {kind}" for kind, count in manifest.get("tokens", {}).items() if count]
    spans = [f"{span['started']} to {span.get('ended') or 'an end that was not recorded'}" for span in sessions]
    machine = "{platform}, {cores} cores".format(**environment) if environment else "not recorded"
    made = {"machine": machine, "tokens": ", ".join(tokens) or "not recorded", "sampled (UTC)": "; ".join(spans)}
    return facts(engine | code_of(environment) | made)


def code_of(environment: dict[str, Any]) -> dict[str, Any]:
    """Commit, Python and packages of a manifest's environment."""
    git = environment.get("git") or {}
    commit = f"{git['commit'][:12]}{' (with local changes)' if git['dirty'] else ''}" if git else "unknown"
    return {"git commit": commit, "python": environment.get("python"), "packages": environment.get("packages")}


def source_of(run: Run) -> Source:
    """Who made a run's texts, as `made_by` says it."""
    stored = run.read_json("config.json")
    config = RunConfig.stored(stored)
    return made_by(config, run.inputs())


def facts(values: dict[str, Any]) -> pd.DataFrame:
    """A two-column table of named facts; what is not known has no row."""
    known = {name.replace("_", " "): _plain(value) for name, value in values.items() if value not in (None, "", [], {})}
    return pd.DataFrame({"value": known})


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items() if each is not None)
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)
