"""A local model through vLLM, in this process: for GPUs, and for models that need several.

vLLM gets prompts as our own token ids, with every sampling field stated. It mixes requests as it likes and keeps what
prompts have in common, so each sample is a request of its own, with its own seed. A draw depends on seed, problem and
sample; on a GPU its low bits, and so a text now and then, also on the batch.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, sample_seed
from gsm8k_nb.samplers.loading import load_tokens, model_source
from gsm8k_nb.samplers.tokens import timed
from gsm8k_nb.texts import one_line

PROMPT_ROOM = 8192  # tokens for a prompt: 32 exemplars are about 6,000. The model's whole context costs too much memory
COLDEST = 0.01  # vLLM raises a lower temperature to this
HAND_ON = 16  # samples go to the run folder in groups of so many
MOST_REFUSED = 3  # requests, before any is taken
# Unless the user has set them: no log in the notebook, and no report of use leaves this machine.
ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1"}
INVARIANT = {"VLLM_BATCH_INVARIANT": "1"}  # the same text in any batch, on the GPUs where vLLM can

Asked = tuple[Request, list[int], list[str]]  # what vLLM works on: a request, its prompt, its stop strings


class VLLMSampler:
    """``vllm.LLM``, kept supplied with more requests than it works on at once, and asked for samples as they end."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.vllm, self.device = import_vllm(config)
        source, revision = model_source(config.model, config.revision)
        self.tokens = load_tokens(config, source, revision)
        self.tokens.context = min(self.tokens.context or PROMPT_ROOM, PROMPT_ROOM + config.max_new_tokens)
        try:
            self.engine = self.vllm.LLM(**self._engine_options(source, revision)).llm_engine
        except Exception as error:  # vLLM raises what its parts raise: OSError, ValueError, RuntimeError and their kin
            raise SamplerError(f"model: vllm could not load {config.model!r}: {one_line(error)}") from error
        self.tokenizer, self.has_chat_template = self.tokens.tokenizer, self.tokens.has_template
        self.most = 2 * self.engine.vllm_config.scheduler_config.max_num_seqs
        self.running: dict[str, Asked] = {}
        self.asked = self.refused = 0
        self.stops_in_thought = False  # vLLM has ended a text at a stop string inside its reasoning

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        todo = iter(requests)
        ended: list[Sample] = []
        started = time.perf_counter()
        try:
            while True:
                for request in islice(todo, max(self.most - len(self.running), 0)):
                    sent = [] if self.stops_in_thought else list(stop)
                    ended += self._ask(request, self.tokens.encode(request.prompt, request.written), sent)
                for output in self._step():
                    ended += self._finish(self.running.pop(output.request_id), output.outputs[0], stop)
                if len(ended) >= HAND_ON or (ended and not self.running):
                    yield timed(ended, started)
                    ended, started = [], time.perf_counter()
                elif not self.running:
                    return
        finally:
            with suppress(Exception):  # the run broke off, perhaps with vLLM itself
                self.engine.abort_request(list(self.running))
            self.running.clear()

    def describe(self) -> dict[str, Any]:
        model = self.engine.vllm_config.model_config
        drawn = {"seed": self.config.seed} if self.config.temperature else {}
        return {
            "engine": f"vllm {self.vllm.__version__}, torch {torch.__version__}",
            "model_class": (model.hf_config.architectures or [None])[0],
            "model_commit": getattr(model.hf_config, "_commit_hash", None),
            "device": self.device,
            "tensor_parallel": self.config.tensor_parallel,
            "dtype": str(model.dtype).removeprefix("torch."),
            "quantization": model.quantization,
            "max_model_len": self.tokens.context,
            "batch_size": self.most // 2,
            "repeatable": INVARIANT.items() <= os.environ.items(),
            "prefix_caching": True,
            **self.tokens.facts(),
            "sampling": {"method": "sampling" if self.config.temperature else "greedy"} | drawn | self._fields(),
        }

    def _engine_options(self, source: str, revision: str | None) -> dict[str, Any]:
        parallel = self.config.tensor_parallel
        return {
            "model": source, "revision": revision, "trust_remote_code": False,
            "dtype": self.config.dtype, "seed": self.config.seed, "max_model_len": self.tokens.context,
            "tensor_parallel_size": parallel,
            "distributed_executor_backend": "mp" if parallel > 1 else None,  # not Ray's, also inside a Ray worker
            "enable_prefix_caching": True,
            "generation_config": "vllm",  # unset fields would be filled from the model's own file
            "disable_log_stats": True, "use_tqdm_on_load": False,
        }  # fmt: skip

    def _ask(self, request: Request, ids: list[int], stop: list[str]) -> list[Sample]:
        """Give vLLM a request; where it cannot take it, the failed sample. SamplerError where it takes none."""
        name = str(self.asked + 1)
        try:
            if no_room := self.tokens.no_room(len(ids), request.most or self.config.max_new_tokens):
                raise ValueError(no_room)
            self.engine.add_request(name, {"prompt_token_ids": ids}, self._parameters(request, stop))
        except ValueError as error:
            self.refused += 1
            if not self.asked and self.refused == MOST_REFUSED:
                raise SamplerError(one_line(error)) from None
            return [request.failed(one_line(error))]
        self.asked += 1
        self.running[name] = (request, ids, stop)
        return []

    def _step(self) -> list[Any]:
        """One step of the model for all running requests; those that ended with it."""
        if not self.running:
            return []
        try:
            if not self.engine.has_unfinished_requests():
                raise RuntimeError(f"it knows nothing of {len(self.running)} requests")
            return [output for output in self.engine.step() if output.finished]
        except Exception as error:
            raise SamplerError(f"vllm stopped: {one_line(error)}; what was sampled before is safe") from error

    def _parameters(self, request: Request, stop: list[str]) -> Any:
        """Every field that can change a text, stated, with all of the model's end tokens, of which vLLM knows one."""
        from vllm.sampling_params import RequestOutputKind

        seed = sample_seed(self.config.seed, request) if self.config.temperature else None
        ends = {"stop": stop, "stop_token_ids": self.tokens.eos_ids}
        fields = self._fields() | {"max_tokens": request.most or self.config.max_new_tokens}
        return self.vllm.SamplingParams(**fields, **ends, seed=seed, output_kind=RequestOutputKind.FINAL_ONLY)

    def _fields(self) -> dict[str, Any]:
        config = self.config
        drawn = {"temperature": config.temperature, "top_p": config.top_p, "top_k": config.top_k or 0}
        return {
            **(drawn if config.temperature else {"temperature": 0.0, "top_p": 1.0, "top_k": 0}),
            "n": 1, "max_tokens": config.max_new_tokens, "min_tokens": 0, "ignore_eos": False,
            "min_p": config.min_p or 0.0 if config.temperature else 0.0,
            "repetition_penalty": config.repetition_penalty or 1.0,
            "presence_penalty": config.presence_penalty or 0.0,
            "frequency_penalty": config.frequency_penalty or 0.0, "skip_special_tokens": True,
        }  # fmt: skip

    def _finish(self, asked: Asked, output: Any, stop: Sequence[str]) -> list[Sample]:
        """An output as a sample, cut by our own rules; none where it is asked for anew.

        vLLM knows nothing of reasoning. Where it stopped inside a thought, this text, and all later ones, are written
        without its stop strings: the same text so far, since a draw depends on its own seed.
        """
        (request, prompt, sent), ids, reason = asked, list(output.token_ids), output.finish_reason
        if reason not in ("stop", "length"):
            return [request.failed(f"vllm ended the request: {reason}")]
        sample = self.tokens.sample(request, prompt, ids, stop)
        if reason == "stop" and sample.finish_reason == "length":  # by neither an end token nor a string of ours
            if sent:
                self.stops_in_thought = True
                return self._ask(request, prompt, [])
            sample = replace(sample, finish_reason=reason)
        return [replace(sample, completion_tokens=len(ids))]


def import_vllm(config: RunConfig) -> tuple[Any, str]:
    """The vllm package and the kind of device it runs on. SamplerError where it is missing or cannot do as asked."""
    for name, value in (ENVIRONMENT | (INVARIANT if config.repeatable else {})).items():
        os.environ.setdefault(name, value)
    if config.tensor_parallel == 1:  # in this process, where its errors can be seen
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    try:
        import vllm
        from vllm.platforms import current_platform
    except ImportError as error:
        raise SamplerError(
            "sampler: 'vllm' needs vLLM in an environment of its own, since it pins its own torch: "
            f"python -m venv .venv-vllm && .venv-vllm/bin/pip install -e '.[vllm]' ({error})"
        ) from None
    if config.repeatable and current_platform.device_type == "cpu":
        raise SamplerError("repeatable: vllm repeats its texts on GPUs only; use sampler: transformers on a CPU")
    if 0 < config.temperature < COLDEST:
        raise SamplerError(f"temperature: vllm takes 0, or {COLDEST} and more, got {config.temperature}")
    device = current_platform.device_type
    if config.device not in ("auto", device):
        raise SamplerError(
            f"device: this vllm runs on {device!r}, got {config.device!r}; use device: auto, and the environment "
            "variable CUDA_VISIBLE_DEVICES to choose GPUs"
        )
    return vllm, device
