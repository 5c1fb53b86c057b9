"""What several test modules need: the official data where it lies beside the checkout, a tiny model, a small run."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest

from gsm8k_nb import places
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

if (SHARED / "gsm8k").is_dir():  # the official files may lie beside the checkout
    os.environ.setdefault("GSM8K_NB_DATA", str(SHARED / "gsm8k"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the tests need no network, and must not wait for one


def pytest_configure(config) -> None:
    """Start, once for all workers, the process that others are forked from; Jupyter's kernels are, too."""
    if hasattr(config, "workerinput") or "GSM8K_NB_COLD" in os.environ or not hasattr(os, "pidfd_open"):
        return
    folder = Path(tempfile.mkdtemp(prefix="gsm8k_nb_warm_"))
    path, program = str(folder / "socket"), str(Path(__file__).with_name("warm.py"))
    log = (folder / "log").open("w")
    process = subprocess.Popen([sys.executable, program, "serve", path], stdout=log, stderr=log)
    spec = Path(sys.prefix) / "share" / "jupyter" / "kernels" / "python3"
    kernel = shutil.copytree(spec, folder / "kernels" / "python3") / "kernel.json"
    facts = json.loads(kernel.read_text())
    facts["argv"] = [sys.executable, "-S", program, "run", path, *facts["argv"][facts["argv"].index("-m") :]]
    kernel.write_text(json.dumps(facts))
    os.environ.update(GSM8K_NB_WARM=path, JUPYTER_PATH=str(folder))
    config.add_cleanup(lambda: (process.kill(), process.wait(), shutil.rmtree(folder, ignore_errors=True)))


# The folder of the official GSM8K files and released solutions.
OFFICIAL = Path(os.environ.get("GSM8K_NB_DATA") or places.cache_folder() / "gsm8k" / places.OFFICIAL_COMMIT)
needs_official = pytest.mark.skipif(
    not all((OFFICIAL / name).exists() for name in places.OFFICIAL_FILES),
    reason="the official GSM8K files are not here: run 'make data', or set GSM8K_NB_DATA to their folder",
)


@pytest.fixture(scope="session", params=[pytest.param(OFFICIAL, marks=needs_official, id="official")])
def official(request) -> Path:
    """The folder of the official GSM8K files and released solutions."""
    return request.param


@pytest.fixture
def problems() -> list[Problem]:
    """Four small problems of one to three steps; the third is answered by a number with a comma."""
    solutions = [
        "She has 2 + 3 = <<2+3=5>>5 pens.\n#### 5",
        "A box holds 4 * 6 = <<4*6=24>>24.\nTwo hold 24 * 2 = <<24*2=48>>48.\n#### 48",
        "It earns 600 * 2 = $<<600*2=1200>>1,200.\n#### 1,200",
        "He walks 3 + 4 = <<3+4=7>>7.\nThen 7 - 9 = <<7-9=-2>>-2.\nHalf is -2 / 2 = <<-2/2=-1>>-1.\n#### -1",
    ]
    golds = ["5", "48", "1200", "-1"]
    return [
        Problem(f"test-{index:04d}", f"Question number {index}?", solution, Decimal(gold))
        for index, (solution, gold) in enumerate(zip(solutions, golds, strict=True))
    ]


@pytest.fixture
def data_file(tmp_path, problems) -> Path:
    """The small problems as a JSONL file in GSM8K's format."""
    file = tmp_path / "small.jsonl"
    write_jsonl(file, [{"question": one.question, "answer": one.solution} for one in problems])
    return file


@pytest.fixture
def stored(tmp_path, problems) -> Path:
    """Stored completions of the small problems: right, right only under flexible, wrong, empty and cut."""
    texts = ["2 + 3 = 5\n#### 5", "So the answer is 48.", "I do not know", ""]
    file = tmp_path / "samples.jsonl"
    write_jsonl(
        file,
        [
            {
                "problem_id": one.id,
                "sample_index": 0,
                "text": text,
                "finish_reason": "length" if text.startswith("I") else "stop",
                "error": None,
                "prompt_tokens": 10,
                "completion_tokens": len(text.split()),
                "seconds": 0.1,
            }
            for one, text in zip(problems, texts, strict=True)
        ],
    )
    return file


@pytest.fixture
def replay_config(tmp_path, data_file, stored) -> RunConfig:
    """A replay of ``stored`` into a folder of its own."""
    return RunConfig(
        model="stored",
        sampler="replay",
        data_path=str(data_file),
        replay_path=str(stored),
        protocol_label="a test, test@1",
        prompt="as_stored",
        outputs_dir=str(tmp_path / "outputs"),
    )


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """A folder with a two-layer Llama of random weights and a byte-level tokenizer that adds a BOS."""
    torch = pytest.importorskip("torch", reason="the transformers extra is not installed")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    specials = ["<pad>", "<s>", "</s>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(specials + alphabet)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.4,
    )
    model = LlamaForCausalLM(config)
    # A model's own file may ask for sampling and penalties; none of it may reach an evaluation.
    model.generation_config.update(do_sample=True, temperature=0.3, top_k=7, repetition_penalty=1.7)
    model.save_pretrained(folder)
    return folder


def write_jsonl(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
