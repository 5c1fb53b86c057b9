"""An engine is one file and one line, as docs/extending.md shows it."""

import subprocess
import sys
import time
from typing import get_args

from gsm8k_nb import samplers
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import ENGINES
from gsm8k_nb.samplers import open_sampler, replay
from tests.conftest import ROOT
from tests.test_docs import blocks


def test_a_file_and_a_line_are_an_engine(tmp_path):
    [file] = [block for block in blocks("extending.md", "python") if "class CommandSampler" in block]
    [line] = [block for block in blocks("extending.md", "python") if "ENGINES[" in block]
    (tmp_path / "command.py").write_text(file)
    program = f"""
{line}
import gsm8k_nb.samplers
from gsm8k_nb.config import RunConfig
gsm8k_nb.samplers.__path__.append({str(tmp_path)!r})
sampler = gsm8k_nb.samplers.open_sampler(RunConfig(sampler="command", model="cat"))
assert sampler.describe()["engine"] == "command"
assert "command (any command)" in RunConfig.model_fields["sampler"].description
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_engine_is_where_its_line_says(replay_config):
    assert RunConfig.model_fields["sampler"].description == (
        "transformers (here), openai (any compatible server), vllm (here), ray (many workers) or replay"
    )
    for sampler in get_args(RunConfig.model_fields["sampler"].annotation):
        module, name = ENGINES[sampler][0].split(":")
        assert f"class {name}" in (ROOT / "gsm8k_nb" / "samplers" / f"{module}.py").read_text()
    assert type(open_sampler(replay_config)).__name__ == "ReplaySampler"


def test_loading_that_takes_long_is_told_of(replay_config, monkeypatch, capsys):
    monkeypatch.setattr(samplers, "PATIENCE", 0.01)
    monkeypatch.setattr(replay.ReplaySampler, "__init__", lambda self, config: time.sleep(0.5))
    open_sampler(replay_config)
    assert capsys.readouterr().out == "stored is being loaded; the first time can take minutes.\n"
    monkeypatch.setattr(samplers, "PATIENCE", 0.2)
    monkeypatch.setattr(replay.ReplaySampler, "__init__", lambda self, config: None)
    open_sampler(replay_config)
    time.sleep(0.4)
    assert capsys.readouterr().out == ""
