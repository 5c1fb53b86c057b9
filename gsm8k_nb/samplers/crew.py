"""The client of a server, whose requests run in a thread of their own: a notebook's has an event loop already."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import httpx2
import openai

from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers.refusals import Failure
from gsm8k_nb.samplers.server import OPENAI_URL, Key

LONGEST_REPLY = 1 << 26  # bytes of an answer, unpacked; 16 choices of 131,072 tokens are about 12 MB


class Crew:
    """An event loop in its thread, with a client and the tasks that use it, each where it has one of the ``slots``."""

    def __init__(self, client: openai.AsyncOpenAI, concurrency: int) -> None:
        self.client, self.slots = client, asyncio.Semaphore(concurrency)
        self.tasks: set[asyncio.Task[None]] = set()  # the loop itself holds none
        self.loop, self.stopping = asyncio.new_event_loop(), asyncio.Event()
        # A daemon, so that an interpreter that ends in the middle of a run does not wait for a server.
        self.thread = threading.Thread(target=self._run, name="gsm8k_nb requests", daemon=True)
        self.thread.start()

    def begin(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Have a task of ``work`` with these arguments in the loop."""
        self._call(self._start, work, *arguments)

    def stop(self) -> None:
        """Cancel what is under way and end the thread. Safe to repeat."""
        self._call(self.stopping.set)
        self.thread.join()

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
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

    def _start(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        task = self.loop.create_task(work(*arguments))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


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
