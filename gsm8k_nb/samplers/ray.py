"""Many workers on Ray, each with a model of its own: on this machine, or on a cluster that ``ray_address`` names.

One block as a worker gets it, and what comes back, a piece a call:

    [Request(test-0004, 0), Request(test-0004, 1), Request(test-0005, 0), ...]
    [Sample(test-0004, 0), Sample(test-0005, 0)], [Sample(test-0004, 1)], ..., {"engine": {...}, ...}

A block holds whole problems, whose samples share one reading of the prompt. Blocks get smaller towards the end, so that
workers end together. Answers are asked for a piece at a time: they reach the run folder as they are made, and when a
worker dies, a new one is asked for what the dead one had not handed over, and for nothing else. What was answered is
known here alone: each request is crossed off once.
"""

import os
import platform
import signal
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
    ray = None

TRIES = 3  # to start Ray: its start has a limit of 30 seconds, too few on a busy machine
PATIENCE = 60  # seconds before it is said that no worker is ready
MOST_DEATHS = 3  # workers that one block may cost, or that may die in a row while they load the model
SMALLEST_VLLM = 256  # requests in a block for vllm, which works on so many at once; for transformers it is batch_size


class RaySampler:
    """Blocks of requests for ``ray_workers`` workers, samples as they come; a lost worker is replaced.

    Workers stay until the sampler is no longer used, or until a run breaks off.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.restarts = 0
        self.pool = self._open_pool()
        self.has_chat_template: bool = self.pool.first_facts["has_chat_template"]

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        blocks = make_blocks(list(requests), self.config)
        if blocks and self.pool.closed:
            self.restarts += self.pool.restarts
            self.pool = self._open_pool()
        try:
            yield from self.pool.run(blocks, tuple(stop))
        except BaseException:  # an error, Ctrl-C, or nobody takes the samples any more
            self.pool.close()
            raise

    def describe(self) -> dict[str, Any]:
        """The facts of one worker, and of all: their number, restarts, and the fields in which workers differ."""
        engines = [facts["engine"] for facts in self.pool.facts.values()]
        first = engines[0]
        return first | {
            "engine": f"ray {ray.__version__}, {self.config.ray_workers} workers: {first['engine']}",
            "workers": self.config.ray_workers,
            "worker_restarts": self.restarts + self.pool.restarts,
            "gpus_per_worker": self.pool.share.gpus,
            "workers_differ_in": [name for name in first if any(one.get(name) != first[name] for one in engines)],
        }

    def _open_pool(self) -> "_Pool":
        pool = _Pool(self.config)
        weakref.finalize(self, pool.close)
        pool.wait_for_one()
        return pool


@dataclass
class Block:
    """Requests that go to one worker: those still to be answered, and how many workers died over them."""

    left: dict[tuple[str, int], Request]
    deaths: int = 0


@dataclass(frozen=True)
class _Share:
    """What a worker gets of the cluster."""

    cores: int
    gpus: int


@dataclass
class _Seat:
    """A worker as seen from here: Ray's handle, the answer that is awaited (None: it is idle), and its block."""

    actor: Any
    awaited: Any
    block: Block | None = None


class _Pool:
    """The workers of a run and what they are doing. Whatever Ray says is heard in ``_next``."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.restarts = 0
        self.deaths = 0  # in a row, of workers that were loading the model
        self.facts: dict[Any, dict[str, Any]] = {}  # what each process last said of itself
        self.seats: list[_Seat] = []
        self.closed = False
        self.started_ray = connect(config.ray_address)
        try:
            self.share = _share(config, self.started_ray)
            self.seats = [self._hire() for _ in range(config.ray_workers)]
        except BaseException:
            self.close()
            raise

    @property
    def first_facts(self) -> dict[str, Any]:
        return next(iter(self.facts.values()))

    def wait_for_one(self) -> None:
        """Until one worker has loaded the model; SamplerError in its own words where it cannot."""
        try:
            if not ray.wait([seat.awaited for seat in self.seats], timeout=PATIENCE)[0]:
                self._warn_of_waiting()
            while not self.facts:
                self._next(deque())
        except BaseException:
            self.close()
            raise

    def _warn_of_waiting(self) -> None:
        free = ray.available_resources()
        warnings.warn(
            f"no Ray worker is ready after {PATIENCE} s: each needs {self.share.cores} cores and {self.share.gpus} "
            f"GPUs, free are {free.get('CPU', 0):g} and {free.get('GPU', 0):g}. A large model also takes long to load",
            stacklevel=2,
        )

    def run(self, blocks: deque[Block], stop: tuple[str, ...]) -> Iterator[list[Sample]]:
        """Hand the blocks out, and the samples on, until every request is answered."""
        while blocks or any(seat.block for seat in self.seats):
            for seat in self.seats:
                if blocks and seat.awaited is None:
                    seat.block = blocks.popleft()
                    seat.awaited = seat.actor.answer.remote(list(seat.block.left.values()), stop)
            samples = self._next(blocks)
            if samples:
                yield samples

    def close(self) -> None:
        """End the workers, and Ray where it was started here. May be called again."""
        if not self.closed and ray.is_initialized():
            for seat in self.seats:
                _kill(seat.actor)
            if self.started_ray:
                ray.shutdown()
        self.closed = True

    def _hire(self) -> _Seat:
        values = self.config.model_dump() | {"sampler": self.config.ray_engine, "model": _model(self.config.model)}
        worker = ray.remote(_Worker).options(num_cpus=self.share.cores, num_gpus=self.share.gpus)
        actor = worker.remote(values, max(self.share.cores, 1))
        return _Seat(actor, actor.open.remote())

    def _next(self, blocks: deque[Block]) -> list[Sample]:
        """Wait for the next answer of any worker; the samples in it. A lost worker's block goes back to ``blocks``."""
        waiting = {seat.awaited: place for place, seat in enumerate(self.seats) if seat.awaited is not None}
        [ready], _ = ray.wait(list(waiting), num_returns=1)
        place = waiting[ready]
        try:
            answer = ray.get(ready)
        except RayTaskError as error:
            raise SamplerError(_words(error)) from None
        except RayError as error:  # the process, its node or the way to it is gone
            self._replace(place, blocks, error)
            return []
        return self._take(self.seats[place], answer)

    def _take(self, seat: _Seat, answer: dict[str, Any] | list[Sample]) -> list[Sample]:
        """Samples are crossed off, and the next are asked for while these are stored. Facts end a block, or come from a
        worker that is ready for its first."""
        if isinstance(answer, list):
            seat.awaited = seat.actor.answer.remote()
            left = seat.block.left
            return [one for one in answer if left.pop((one.problem_id, one.sample_index), None)]
        if seat.block and seat.block.left:
            raise SamplerError(f"a worker left {len(seat.block.left)} of its requests unanswered")
        self.facts[answer["process"]] = answer
        self.deaths = 0
        seat.awaited = seat.block = None
        return []

    def _replace(self, place: int, blocks: deque[Block], error: Exception) -> None:
        """A new worker in the place of a dead one, up to ``MOST_DEATHS`` times over the same block."""
        dead, block = self.seats[place], self.seats[place].block
        _kill(dead.actor)  # it may only be out of reach
        deaths = self.deaths = self.deaths + 1
        if block:
            deaths, self.deaths = block.deaths + 1, 0
            block.deaths = deaths
        if block and block.left:
            blocks.appendleft(block)
        if deaths == MOST_DEATHS:
            during = f"over the requests of {min(block.left)[0]}" if block else "while they loaded the model"
            raise SamplerError(
                f"ray_workers: {MOST_DEATHS} workers died {during}, often for want of memory: try fewer ray_workers "
                f"or a smaller batch_size. Ray says: {one_line(error)}"
            )
        self.restarts += 1
        self.seats[place] = self._hire()


class _Worker:
    """What runs in a worker's process. Ray calls its methods one after another, never at the same time."""

    def __init__(self, values: dict[str, Any], threads: int) -> None:
        self.config = RunConfig(**values)
        self.threads = threads
        self.sampler: Sampler | None = None
        self.samples: Iterator[list[Sample]] = iter(())

    def open(self) -> dict[str, Any]:
        """Load the model. Not done by ``__init__``: an error there would reach the caller as a dead worker."""
        if self.config.sampler == "transformers":
            import torch

            torch.set_num_threads(self.threads)
        self.sampler = open_sampler(self.config)
        return self._facts()

    def answer(self, block: list[Request] | None = None, stop: tuple[str, ...] = ()) -> list[Sample] | dict[str, Any]:
        """The next samples of the block, which the first call brings; at its end, the worker's facts."""
        if block is not None:
            self.samples = self.sampler.sample(block, stop)
        samples = next(self.samples, None)
        return self._facts() if samples is None else samples

    def _facts(self) -> dict[str, Any]:
        return {
            "process": (platform.node(), os.getpid()),
            "has_chat_template": self.sampler.has_chat_template,
            "engine": self.sampler.describe(),
        }


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
    options: dict[str, Any] = {"address": address or "local", "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options["include_dashboard"] = False
    else:
        options["runtime_env"] = {"py_modules": [str(Path(__file__).resolve().parents[1])]}
    for tries_left in reversed(range(TRIES if address is None else 1)):
        try:
            with _own_sigterm():
                ray.init(**options)
            break
        except Exception as error:  # Ray raises ConnectionError, RuntimeError, ImportError, and plain Exception
            ray.shutdown()
            if tries_left:
                continue
            what = "Ray could not be started here" if address is None else f"ray_address: {address!r} cannot be joined"
            step = "" if address is None else "; start a cluster with 'ray start --head', or leave ray_address out"
            raise SamplerError(f"{what}{step}. Ray says: {one_line(error)}") from None
    return address is None


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it starts; afterwards the caller's handler is put back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:  # else it was not set by Python
            signal.signal(signal.SIGTERM, before)


def _share(config: RunConfig, local: bool) -> _Share:
    """CPU cores and GPUs of a worker: GPUs where there are any and ``device`` allows, else equal shares of the cores.

    Too few GPUs are a SamplerError where Ray was started here, and a warning on a cluster, which may yet grow.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    there = int(sum(node.get("GPU", 0) for node in nodes))
    if config.device.startswith("cuda") or (config.device == "auto" and there):
        each = config.tensor_parallel if config.ray_engine == "vllm" else 1
        if there < each * config.ray_workers:
            message = f"ray_workers: {config.ray_workers} workers of {each} GPUs each, but Ray has {there} GPUs"
            if local:
                raise SamplerError(f"{message}; set ray_workers: {max(there // each, 1)}, or device: cpu")
            warnings.warn(f"{message}: some workers wait until it has more", stacklevel=2)
        return _Share(cores=1, gpus=each)
    cores = [int(node.get("CPU", 0)) for node in nodes]
    fitting = [n for n in range(1, max(cores, default=0) + 1) if sum(c // n for c in cores) >= config.ray_workers]
    return _Share(cores=max(fitting, default=0), gpus=0)


def make_blocks(requests: Sequence[Request], config: RunConfig) -> deque[Block]:
    """Requests in blocks of whole problems, in their order, each block a share of what those before it have left.

    Large blocks first, since an engine is at its best with much to do; small ones last, so that workers end together.
    """
    problems: dict[str, dict[tuple[str, int], Request]] = {}
    for one in requests:
        problems.setdefault(one.problem.id, {})[one.problem.id, one.sample_index] = one
    smallest = SMALLEST_VLLM if config.ray_engine == "vllm" else config.batch_size
    smallest = min(smallest, -(-len(requests) // config.ray_workers))
    blocks: deque[Block] = deque()
    left, size = len(requests), 0
    for asked in problems.values():
        if not blocks or len(blocks[-1].left) >= size:
            blocks.append(Block({}))
            size = max(smallest, left // (2 * config.ray_workers))
        blocks[-1].left.update(asked)
        left -= len(asked)
    return blocks


def _model(name: str) -> str:
    """The model's name, or its whole path where it is a folder or file here: a worker has another working folder."""
    with suppress(FileNotFoundError):
        return str(find_path(name, "model"))
    return name


def _kill(actor: Any) -> None:
    with suppress(Exception):  # it may be gone already, or Ray may be
        ray.kill(actor)


def _words(error: "RayTaskError") -> str:
    """What a worker's own error says, in one line."""
    cause = error.cause
    own = isinstance(cause, SamplerError)
    return one_line(cause) if own else f"a worker stopped with {type(cause).__name__}: {one_line(cause)}"
