"""Many workers on Ray, each with a model of its own: on this machine, or on a cluster that ``ray_address`` names.

A worker gets a block of requests and streams samples back as they end. Ray itself starts a dead worker anew and asks it
for the block once more; what had come from the dead one is kept, and a sample that comes twice counts once.
"""

import os
import platform
import signal
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import find_path
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, Sampler, SamplerError, open_sampler
from gsm8k_nb.texts import one_line

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError:  # an extra: ``connect`` says how to install it
    ray = None  # type: ignore[assignment]

TRIES = 3  # to start Ray: its start has a limit of 30 seconds, too few on a busy machine
PATIENCE = 60  # seconds before it is said that no worker is ready
MOST_DEATHS = 3  # of workers, over one block or while they load the model
MOST_RESTARTS = 20  # of one worker over all blocks
SMALLEST_VLLM = 256  # requests in a block for vllm, which works on so many at once; for transformers it is batch_size

Block = dict[tuple[str, int], Request]  # what is still to be answered, by problem and sample


class RaySampler:
    """Blocks of requests for ``ray_workers`` workers, samples as they come. Workers end when a run breaks off."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.workers: list[Any] = []
        self.facts: dict[Any, dict[str, Any]] = {}  # what each process last said of itself
        self._open()
        self.has_chat_template: bool = next(iter(self.facts.values()))["has_chat_template"]

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        blocks = make_blocks(list(requests), self.config)
        if blocks and not self.workers:
            self._open()
        idle = list(self.workers)
        streams: dict[Any, tuple[Any, Block, int]] = {}
        try:
            while blocks or streams:
                while blocks and idle:
                    worker, block = idle.pop(), blocks.popleft()
                    stream = worker.answer.remote([*block.values()], tuple(stop))
                    streams[stream] = worker, block, len(block)
                ready: Any = ray.wait([*streams], num_returns=1)[0][0]
                worker, block, asked = streams[ready]
                if (answer := next(ready, None)) is not None:
                    samples = self._hear(answer, f"over the requests of {next(iter(block), ('a block',))[0]}")
                    if new := [
                        sample for sample in samples if block.pop((sample.problem_id, sample.sample_index), None)
                    ]:
                        yield new
                    continue
                del streams[ready]
                idle.append(worker)
                if len(block) == asked:
                    raise SamplerError(f"a worker left {asked} requests unanswered")
                if block:  # it was started anew, and handed over in other pieces
                    blocks.append(block)
        except BaseException:  # an error, Ctrl-C, or nobody takes the samples any more
            self._close()
            raise

    def describe(self) -> dict[str, Any]:
        """The facts of one worker, and of all: their number, restarts, and the fields in which workers differ."""
        engines = [facts["engine"] for facts in self.facts.values()]
        first = engines[0]
        return first | {
            "engine": f"ray {ray.__version__}, {self.config.ray_workers} workers: {first['engine']}",
            "workers": self.config.ray_workers,
            "worker_restarts": sum(facts["restarted"] for facts in self.facts.values()),
            "gpus_per_worker": self.gpus,
            "workers_differ_in": [name for name in first if any(other.get(name) != first[name] for other in engines)],
        }

    def _open(self) -> None:
        """Start the workers, until one has loaded the model. SamplerError in its own words where it cannot."""
        started_ray = connect(self.config.ray_address)
        self._close = weakref.finalize(self, _end, self.workers, started_ray)
        try:
            cores, self.gpus = _share(self.config, started_ray)
            values = self.config.model_dump() | {"sampler": self.config.ray_engine}
            with suppress(FileNotFoundError):  # a folder or file here: a worker has another working folder
                values["model"] = str(find_path(self.config.model, "model"))
            restarts = {"max_restarts": MOST_RESTARTS, "max_task_retries": MOST_DEATHS - 1}
            hired = ray.remote(_Worker).options(num_cpus=cores, num_gpus=self.gpus, **restarts)
            self.workers += [hired.remote(values, max(cores, 1)) for _ in range(self.config.ray_workers)]
            loading = [worker.ready.remote() for worker in self.workers]
            if not ray.wait(loading, timeout=PATIENCE)[0]:
                warnings.warn(
                    f"no Ray worker is ready after {PATIENCE} s: a large model takes long to load; each needs {cores} "
                    f"cores and {self.gpus} GPUs, of which Ray has free: {ray.available_resources()}",
                    stacklevel=4,
                )
            self._hear(ray.wait(loading)[0][0], "while they loaded the model")
        except BaseException:
            self._close()
            raise

    def _hear(self, answer: Any, during: str) -> list[Sample]:
        """Samples that a worker hands over, or none and its facts, which are kept. SamplerError where it cannot."""
        try:
            result = ray.get(answer)
        except RayTaskError as error:
            own = isinstance(error.cause, SamplerError)
            kind = "" if own else f"a worker stopped with {type(error.cause).__name__}: "
            raise SamplerError(kind + one_line(error.cause)) from None
        except RayError as error:  # the process, its node or the way to it is gone, and was after each new try
            raise SamplerError(
                f"ray_workers: {MOST_DEATHS} workers died {during}, often for want of memory: try fewer ray_workers "
                f"or a smaller batch_size. Ray says: {one_line(error)}"
            ) from None
        if isinstance(result, list):
            return result
        self.facts[result["process"]] = result
        return []


class _Worker:
    """What runs in a worker's process. Ray calls its methods one after another, never at the same time."""

    def __init__(self, values: dict[str, Any], threads: int) -> None:
        self.config, self.threads = RunConfig(**values), threads

    @cached_property
    def sampler(self) -> Sampler:
        """The engine, opened at the first use: an error in ``__init__`` would reach the caller as a dead worker."""
        if self.config.sampler == "transformers":
            import torch

            torch.set_num_threads(self.threads)
        return open_sampler(self.config)

    def ready(self) -> dict[str, Any]:
        """The worker's facts, once it has loaded the model."""
        return {
            "process": (platform.node(), os.getpid()),
            "restarted": ray.get_runtime_context().was_current_actor_reconstructed,
            "has_chat_template": self.sampler.has_chat_template,
            "engine": self.sampler.describe(),
        }

    def answer(self, block: list[Request], stop: tuple[str, ...]) -> Iterator[list[Sample] | dict[str, Any]]:
        """The samples of a block as they end; after them, the worker's facts."""
        yield from self.sampler.sample(block, stop)
        yield self.ready()


def connect(address: str | None) -> bool:
    """Join the Ray cluster at ``address``, or start Ray here; True where this call started it, so is to end it.

    A Ray that this process has joined already is used as it is. On a cluster, workers get this package from here; its
    dependencies and the model must be on their nodes. SamplerError says what to do where it cannot be.
    """
    if ray is None:
        raise SamplerError("sampler: 'ray' needs Ray: pip install 'gsm8k_nb[ray]'")
    if ray.is_initialized():
        return False
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # no report of use leaves this machine
    os.environ.setdefault("RAY_worker_niceness", "0")  # workers are as urgent as a run without Ray
    options: dict[str, Any] = {"logging_level": "ERROR", "include_dashboard": False}
    failed = "Ray could not be started here"
    if address:
        options = {"logging_level": "ERROR", "runtime_env": {"py_modules": [str(Path(__file__).resolve().parents[1])]}}
        failed = f"ray_address: {address!r} cannot be joined; start a cluster with 'ray start --head', or leave it out"
    sigterm = signal.getsignal(signal.SIGTERM)  # Ray takes it for itself
    for tries_left in reversed(range(1 if address else TRIES)):
        try:
            ray.init(address=address or "local", log_to_driver=False, **options)
            break
        except Exception as error:  # Ray raises ConnectionError, RuntimeError, ImportError, and plain Exception
            ray.shutdown()
            if not tries_left:
                raise SamplerError(f"{failed}. Ray says: {one_line(error)}") from None
        finally:
            with suppress(ValueError, TypeError):  # not in the main thread; not set by Python
                signal.signal(signal.SIGTERM, sigterm)
    return address is None


def _share(config: RunConfig, local: bool) -> tuple[int, int]:
    """CPU cores and GPUs of a worker: GPUs where there are any and ``device`` allows, else equal shares of the cores.

    Too few GPUs are a SamplerError where Ray was started here; a cluster may yet grow.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    there = int(sum(node.get("GPU", 0) for node in nodes))
    if config.device in ("cpu", "mps") or (config.device == "auto" and not there):
        cores = [int(node.get("CPU", 0)) for node in nodes]
        fitting = (n for n in range(max(cores, default=0), 0, -1) if sum(c // n for c in cores) >= config.ray_workers)
        return next(fitting, 0), 0
    each = config.tensor_parallel if config.ray_engine == "vllm" else 1
    if local and there < each * config.ray_workers:
        raise SamplerError(
            f"ray_workers: {config.ray_workers} workers of {each} GPUs each, but Ray has {there} GPUs; set "
            f"ray_workers: {max(there // each, 1)}, or device: cpu"
        )
    return 1, each


def make_blocks(requests: Sequence[Request], config: RunConfig) -> deque[Block]:
    """Requests in blocks of whole problems, whose samples share one reading of the prompt. Each is a share of what is
    left: large ones first, where an engine is at its best, small ones last, so that workers end together."""
    smallest = SMALLEST_VLLM if config.ray_engine == "vllm" else config.batch_size
    smallest = min(smallest, -(-len(requests) // config.ray_workers))
    blocks, size = deque[Block](), 0
    for _, of_problem in groupby(requests, key=lambda request: request.problem.id):
        if not blocks or len(blocks[-1]) >= size:
            size = max(smallest, (len(requests) - sum(map(len, blocks))) // (2 * config.ray_workers))
            blocks.append({})
        blocks[-1] |= {request.key: request for request in of_problem}
    return blocks


def _end(workers: list[Any], started_ray: bool) -> None:
    """End the workers, and Ray where it was started here."""
    for worker in workers:
        with suppress(Exception):  # it may be gone already, or Ray may be
            ray.kill(worker)
    workers.clear()
    if started_ray and ray.is_initialized():
        ray.shutdown()
