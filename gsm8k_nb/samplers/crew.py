"""The client of a server, and its requests under way in a thread of their own: a notebook's has an event loop already.

consumer's thread   takes requests from the iterable, a few ahead; hands on what has arrived
event loop          a task a group of requests, ``concurrency`` of them under way
"""

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx2
import openai

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError
from gsm8k_nb.samplers.refusals import Failure
from gsm8k_nb.samplers.server import OPENAI_URL, Key

LONGEST_REPLY = 1 << 26  # bytes of an answer, unpacked; 16 choices of 131,072 tokens are about 12 MB
AHEAD = 64  # requests taken from the iterable before they can be sent, at most
Answer = Callable[[openai.AsyncOpenAI, list[Request]], Awaitable[list[Sample]]]  # samples for the first of a group


class Crew:
    """The event loop in its thread, its tasks, and what goes to and fro. ``out`` samples are under way."""

    def __init__(self, client: openai.AsyncOpenAI, answer: Answer, concurrency: int) -> None:
        self.client, self.answer, self.ahead = client, answer, concurrency + min(concurrency, AHEAD)
        self.out = 0
        self.batch: list[Sample] = []  # collected, to be handed on
        self.arrived: deque[list[Sample] | Exception] = deque()
        self.news = threading.Event()  # something has arrived
        self.slots = asyncio.Semaphore(concurrency)
        self.tasks: set[asyncio.Task[None]] = set()  # the loop itself holds none
        self.loop, self.stopping = asyncio.new_event_loop(), asyncio.Event()
        # A daemon, so that an interpreter that ends in the middle of a run does not wait for a server.
        self.thread = threading.Thread(target=self._run, name="gsm8k_nb requests", daemon=True)
        self.thread.start()

    def take(self, groups: Iterator[list[Request]], size: int) -> bool:
        """Hand over requests, enough groups of ``size`` to keep all slots filled; False once there are no more."""
        while self.out < self.ahead * size:
            group = next(groups, None)
            if group is None:
                return False
            self.out += len(group)
            self._call(self._start, group)
        return True

    def collect(self, seconds: float = 0.0) -> None:
        """Add to the batch what arrives, waiting so long for the first of it. An error that has arrived is raised."""
        if self.out and seconds > 0:
            self.news.wait(seconds)
        self.news.clear()
        while self.arrived:
            made = self.arrived[0]
            if isinstance(made, SamplerError):  # without the other thread's frames, where headers are
                raise SamplerError(str(made)) from None
            if isinstance(made, Exception):
                raise made
            n_made = len(made)
            # Python looks for a Ctrl-C after calls and at jumps only: these three statements have neither, so that
            # a sample is in one place, never in both or none.
            self.batch += made
            del self.arrived[0]
            self.out -= n_made

    def stop(self) -> None:
        """Cancel what is under way and end the thread. Safe to repeat."""
        self._call(self.stopping.set)
        self.thread.join()

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended; ``collect`` says why
            self.loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with self.client:
            await self.stopping.wait()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def _start(self, group: list[Request]) -> None:
        task = self.loop.create_task(self._work(group))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _work(self, group: list[Request]) -> None:
        async with self.slots:
            while group and not self.stopping.is_set():
                made: list[Sample] | Exception
                try:
                    made = await self.answer(self.client, group)
                    group = group[len(made) :]
                except Exception as error:
                    made = error
                    self.stopping.set()
                self.arrived.append(made)
                self.news.set()


class BoundedClient(openai.DefaultAioHttpClient):
    """Reads no more than ``LONGEST_REPLY`` of an answer: 300 kB of gzip may hold 300 MB."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        reply = await super().send(request, stream=True, **options)
        whole = bytearray()
        try:
            async for piece in reply.aiter_bytes():
                whole += piece
                if len(whole) > LONGEST_REPLY:
                    raise Failure("too long an answer", f"more than {LONGEST_REPLY >> 20} MiB")
        finally:
            await reply.aclose()
        kept = [(name, value) for name, value in reply.headers.items() if name != "content-encoding"]
        return httpx2.Response(reply.status_code, headers=kept, content=bytes(whole), request=request)


def open_client(config: RunConfig, key: Key, tls: ssl.SSLContext) -> openai.AsyncOpenAI:
    """The SDK's client, over aiohttp, its fastest transport, and without its own retries."""
    limits = httpx2.Limits(max_connections=config.concurrency, keepalive_expiry=30)
    timeout = openai.Timeout(config.request_timeout, connect=min(config.request_timeout, 30))
    http = BoundedClient(limits=limits, timeout=timeout, verify=tls)
    url = config.base_url or OPENAI_URL
    return openai.AsyncOpenAI(api_key=key.reveal(), base_url=url, max_retries=0, timeout=timeout, http_client=http)
