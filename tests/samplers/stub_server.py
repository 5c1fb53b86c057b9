"""A stand-in for an OpenAI-compatible server, on a free port of this machine, that fails as servers do.

    with serve(lambda body, number: reply(body)) as stub:
        OpenAISampler(RunConfig(base_url=stub.url, ...))
    stub.seen[0].body["temperature"]

It answers a prompt whose last number is 17 with ``text_for(17)``, so that every completion can be checked exactly.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

FAULTS = ("429", "500", "503", "hang", "reset", "truncated", "few", "null", "trickle")


@dataclass
class Reply:
    """What to send: a status, a body, headers, and what goes wrong on the way (hang, reset, truncated, trickle)."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    fault: str | None = None


@dataclass(frozen=True)
class Seen:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Stub:
    answer: Callable[[dict[str, Any], int], Reply]
    models: Reply
    url: str = ""
    seen: list[Seen] = field(default_factory=list)


def text_for(number: int) -> str:
    return f"Let us see: it is {number}.\n#### {number}"


def number_in(body: dict[str, Any]) -> int:
    """The last number of the prompt, which is the answer."""
    prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    return int(re.findall(r"\d+", prompt)[-1])


def reply(body: dict[str, Any], texts: list[str | None] | None = None, finish: str = "stop", **message: Any) -> Reply:
    """A good answer with ``n`` choices, or with these ``texts``; ``message`` adds fields to each."""
    if texts is None:
        texts = [text_for(number_in(body))] * body.get("n", 1)
    choices = []
    for index, text in enumerate(texts):
        content = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text, **message}}
        choices.append({"index": index, "finish_reason": finish, **content})
    usage = {"prompt_tokens": 50, "completion_tokens": 7 * len(texts) + 1, "total_tokens": 0}
    return Reply({"id": "x", "model": "stub-1", "system_fingerprint": "fp-1", "choices": choices, "usage": usage})


def error(status: int, message: str, headers: dict[str, str] | None = None, **fields: Any) -> Reply:
    return Reply({"error": {"message": message, **fields}}, status, headers or {})


def faulty(body: dict[str, Any], fault: str) -> Reply:
    """An answer with one of FAULTS."""
    if fault in ("429", "500", "503"):
        return error(int(fault), f"planned {fault}", {"Retry-After": "0.01"} if fault == "429" else {})
    if fault == "few":
        good = reply(body)
        good.body["choices"] = good.body["choices"][: body.get("n", 1) // 2]
        return good
    if fault == "null":
        return reply(body, [None] * body.get("n", 1), finish="stop")
    good = reply(body)
    good.fault = fault
    return good


@contextmanager
def serve(answer: Callable[[dict[str, Any], int], Reply], models: Reply | None = None) -> Iterator[Stub]:
    """The server, as long as the block lasts. ``answer`` gets a request's body and its number, from 0."""
    stub = Stub(answer, models or Reply({"data": [{"id": "stub-1"}]}))
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_run(stub, started)), daemon=True)
    thread.start()
    loop, ended = started.result(60)
    try:
        yield stub
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


async def _run(stub: Stub, started: Future) -> None:
    async def post(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        stub.seen.append(Seen(request.path.removeprefix("/v1"), dict(request.headers), body))
        return await _send(request, stub.answer(body, len(stub.seen) - 1))

    async def listed(request: web.Request) -> web.StreamResponse:
        return await _send(request, stub.models)

    app = web.Application()
    app.router.add_get("/v1/models", listed)
    app.router.add_post("/{path:.*}", post)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"
    ended = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), ended))
    await ended.wait()
    await runner.cleanup()


async def _send(request: web.Request, answer: Reply) -> web.StreamResponse:
    raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    if answer.fault == "hang":
        await asyncio.sleep(3600)
    if answer.fault == "truncated":  # a whole body, as HTTP goes, that is half a JSON text
        raw = raw[: len(raw) // 2]
    if answer.fault not in ("reset", "trickle"):
        return web.Response(body=raw, status=answer.status, headers=answer.headers, content_type="application/json")
    response = web.StreamResponse(headers={"Content-Length": str(len(raw)), "Content-Type": "application/json"})
    await response.prepare(request)
    if answer.fault == "trickle":
        for place in range(len(raw)):
            await response.write(raw[place : place + 1])
            await asyncio.sleep(1)
    await response.write(raw[: len(raw) // 2])
    request.transport.abort()
    return response
