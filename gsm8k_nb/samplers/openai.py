"""Any OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, TGI, hosted APIs) through the official SDK.

>>> config = RunConfig(sampler="openai", base_url="http://localhost:8000/v1", model="Qwen/Qwen3-8B", concurrency=64)
>>> for batch in OpenAISampler(config).sample(requests, stop=()):
...     run.append(batch)             # list[Sample] twice a second, in the order in which they end

A notebook's main thread has an event loop already, so requests run in one of their own, in a thread:

    consumer's thread   takes requests from the iterable, a few ahead; hands on what has arrived
    event loop          ``concurrency`` workers, each with one request under way; retries, adapts, reads

Only the thread of the consumer touches the iterable. The SDK sends (over aiohttp, its fastest transport), without its
typed layer: converting an 8-shot prompt there takes longer than all the rest. It would retry most failures, but not a
truncated body nor an answer without choices, so retries are made here, in one place.
"""

import asyncio
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import aiohttp
import httpx2
import openai
from pydantic import SecretStr

from gsm8k_nb.answers.flexible import without_reasoning
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, wire

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "no-key"  # what a local server gets that asks for none
HAND_ON_SAMPLES = 256
HAND_ON_SECONDS = 0.5
MAX_CHOICES = 16  # asked for in one request: saves all but a sixteenth of the prompts, and little is lost with one
AHEAD = 64  # requests taken from the iterable before they can be sent, at most
ONE_CHOICE = 4  # so many requests for several choices, all answered by one, and none is asked for several any more
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds: the first and the last of the bounds below which a wait is drawn
LONGEST_RETRY_AFTER = 600.0  # a server that asks for more patience ends the run
CONNECT_TRIES = 3  # of a server that has not been reached once
FAILED_IN_A_ROW = 64  # requests that failed for good, before the run stops


class OpenAISampler:
    """Asks a server; whether a chat template exists only it knows, so ``chat_template: plain`` asks for text.

    One ``sample`` at a time. What was learnt of the server (fields it refuses) is kept from one to the next.
    """

    has_chat_template = True

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.key = read_key(config)
        self.learnt = wire.Learnt("max_completion_tokens" if config.base_url is None else "max_tokens")
        self.tls = httpx2.create_ssl_context()  # takes longer than many requests
        self.stop: tuple[str, ...] = ()
        self.counts: Counter[str] = Counter()  # failed tries by kind
        self.endpoints: dict[str, None] = {}  # ordered sets
        self.models: dict[str, None] = {}
        self.fingerprints: dict[str, None] = {}
        self.reached = False
        self.failed_in_a_row = 0
        self.choices: Counter[str] = Counter()  # of requests for several: "several", "one"

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        """Samples as they arrive. Where it is interrupted or must stop, what has arrived is handed on first."""
        self.stop = tuple(stop)
        crew = _Crew(self)
        groups, more = self._groups(iter(requests)), True
        batch: list[Sample] = []
        due = time.monotonic() + HAND_ON_SECONDS
        try:
            while more or crew.out:
                more = more and crew.take(groups)
                crew.collect(batch, due)
                late = len(batch) >= HAND_ON_SAMPLES or time.monotonic() >= due
                if batch and (late or not (more or crew.out)):
                    ready, batch = batch, []  # no call before the yield, see ``drain``
                    yield ready
                if late:
                    due = time.monotonic() + HAND_ON_SECONDS
        except GeneratorExit:
            raise
        except BaseException:  # Ctrl-C too: these are paid for
            crew.stop()
            with suppress(Exception):  # one error at a time
                crew.drain(batch)
            if batch:
                yield batch
            raise
        finally:
            crew.stop()

    def describe(self) -> dict[str, Any]:
        config = self.config
        single = "not asked for" if not self.choices else "yes"
        sampling = {"method": "greedy" if config.temperature == 0 else "sampling"}
        sampling |= wire.fields(config, self.learnt, self.stop)
        sampling["seed"] = "not sent" if "seed" in self.learnt.dropped else f"from {config.seed}, problem and sample"
        return {
            "engine": f"openai {openai.__version__}, aiohttp {aiohttp.__version__}",
            "base_url": config.base_url or OPENAI_URL,
            "endpoints": list(self.endpoints),
            "model": list(self.models),
            "system_fingerprint": list(self.fingerprints),
            "sampling": sampling,
            "dropped_fields": dict(self.learnt.dropped),
            "several_choices_at_once": "no, asked for singly" if "n" in self.learnt.dropped else single,
            "retries": dict(self.counts),
            "concurrency": config.concurrency,
            "repeatable": "not claimed: a server's batches change low bits",
        }

    def _groups(self, requests: Iterator[Request]) -> Iterator[list[Request]]:
        """Samples of one problem that go out as one request, taken from ``requests`` as late as possible."""
        group: list[Request] = []
        for request in requests:
            if group and (request.problem.id != group[0].problem.id or len(group) >= self.most_choices):
                yield group
                group = []
            group.append(request)
            if self.most_choices == 1:
                yield group
                group = []
        if group:
            yield group

    @property
    def most_choices(self) -> int:
        """How many samples to ask for in one request: one where the server gives one."""
        return 1 if "n" in self.learnt.dropped else min(self.config.n_samples, MAX_CHOICES)

    # ---- in the event loop's thread

    async def answer(self, client: openai.AsyncOpenAI, group: list[Request]) -> tuple[list[Sample], list[Request]]:
        """Samples for the first of a group, and those still to be asked for. SamplerError where the run must stop."""
        asked = group[: self.most_choices]
        for tries in count(1):
            try:
                made = await self._try(client, asked)
                self.failed_in_a_row = 0
                return made, group[len(made) :]
            except wire.Passing as failure:
                failure.words = self.hide(failure.words)
                self.counts[failure.kind] += 1
                self._check_patience(failure, tries)
                if tries > self.config.max_retries:
                    return self._failed(asked, failure, tries), group[len(asked) :]
                await asyncio.sleep(_pause(tries, failure.retry_after))
        raise AssertionError("unreachable")

    async def _try(self, client: openai.AsyncOpenAI, asked: list[Request]) -> list[Sample]:
        """One answer from the server. What it refuses is left out where that changes nothing, and asked again."""
        while True:
            path, body = wire.request_body(self.config, self.learnt, asked[: self.most_choices], self.stop)
            self.endpoints[path] = None
            started = time.perf_counter()
            try:
                reply = wire.read_reply(await self._send(client, path, body))
            except wire.Refused as refused:
                refused.words = self.hide(refused.words)
                if refused.code == "content_filter":  # of the prompt, by Azure
                    return [Sample(one.problem.id, one.sample_index, "", "content_filter") for one in asked]
                if not self._adapt(refused, body):
                    raise SamplerError(await self._explain(client, refused)) from None
                continue
            self._note(reply, body)
            if "stop" in body and any(_stopped_in_thought(choice) for choice in reply["choices"]):
                self._drop("stop", "it ended a text inside its reasoning")
                continue
            return wire.samples(asked, reply, self.stop, time.perf_counter() - started)

    async def _send(self, client: openai.AsyncOpenAI, path: str, body: dict[str, Any]) -> bytes:
        """The body of the server's answer. Passing or Refused where there is none."""
        try:
            # Over the whole: the SDK's own timeout is for each read, and a trickle never meets it.
            async with asyncio.timeout(self.config.request_timeout):
                reply = await client.post(path, body=body, cast_to=httpx2.Response)
            self.reached = True
            return reply.content
        except openai.APIStatusError as error:
            self.reached = True
            raw = self.hide(error.response.text).encode()
            raise wire.failure(error.status_code, raw, error.response.headers) from None
        except (TimeoutError, openai.APIConnectionError, aiohttp.ClientError, httpx2.HTTPError, OSError) as error:
            raise self._broken(error) from None

    def _broken(self, error: BaseException) -> wire.Passing:
        """A failure of the connection, by aiohttp's own exception: the layers above it name some of them wrongly."""
        while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError | TimeoutError):
            error = error.__cause__
        words = f"{type(error).__name__} {error}"
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return wire.Passing("no connection", words)
        self.reached = True
        if isinstance(error, TimeoutError):
            return wire.Passing("timeout", f"no whole answer in {self.config.request_timeout:g} s (request_timeout)")
        return wire.Passing("broken connection", words)

    def _adapt(self, refused: wire.Refused, body: dict[str, Any]) -> bool:
        """Whether to ask again without a field; says so the first time."""
        before = set(self.learnt.dropped)
        adapted = self.learnt.adapt(refused, body)
        new = sorted(set(self.learnt.dropped) - before)
        if new:
            _say(f"the server does not take {', '.join(new)}; left out from now on ({self.learnt.dropped[new[0]]})")
        return adapted

    def _drop(self, name: str, why: str) -> None:
        if name not in self.learnt.dropped:
            self.learnt.dropped[name] = why
            _say(f"{name} is left out from now on ({why})")

    def _note(self, reply: dict[str, Any], body: dict[str, Any]) -> None:
        """Keep what an answer says of the server, and whether it gives several choices."""
        for name, seen in (("model", self.models), ("system_fingerprint", self.fingerprints)):
            if isinstance(reply.get(name), str) and reply[name] not in seen:
                seen[reply[name]] = None
        if "n" not in body:
            return
        self.choices["several" if len(reply["choices"]) > 1 else "one"] += 1
        if len(reply["choices"]) < body["n"]:
            self.counts["fewer choices"] += 1
        if wire.counts_one(reply):
            self._drop("n", "with it the server counts the tokens of one choice only")
        if self.choices["one"] >= ONE_CHOICE and not self.choices["several"]:
            self._drop("n", f"{self.choices['one']} requests for several choices brought one each")

    def _check_patience(self, failure: wire.Passing, tries: int) -> None:
        """SamplerError where going on would be in vain."""
        where = f"{self.config.base_url or OPENAI_URL} (base_url)"
        never = failure.kind == "no connection" and not self.reached
        if never and tries >= min(CONNECT_TRIES, self.config.max_retries + 1):
            raise SamplerError(f"no server answers at {where}: {failure}\nStart the server, or correct base_url.")
        if (failure.retry_after or 0) > LONGEST_RETRY_AFTER:
            raise SamplerError(
                f"the server asks to wait {failure.retry_after:.0f} seconds ({failure}); run the same again after that"
            )
        if failure.kind == "bad JSON" and not self.models and failure.words.startswith("<"):
            raise SamplerError(f"{where} answers with a web page; for most servers base_url ends in /v1\n{failure}")

    def _failed(self, asked: list[Request], failure: wire.Passing, tries: int) -> list[Sample]:
        """Error rows, asked for again by the next run. SamplerError where nothing has gone right for long."""
        self.failed_in_a_row += 1
        if self.failed_in_a_row >= FAILED_IN_A_ROW:
            raise SamplerError(
                f"{self.failed_in_a_row} requests in a row failed for good, the last with {failure}\n"
                "See to the server, then run the same again: what was finished is kept, the rest is asked for again."
            )
        error = f"{failure} (tried {tries} times)"
        return [Sample(one.problem.id, one.sample_index, None, error=error) for one in asked]

    async def _explain(self, client: openai.AsyncOpenAI, refused: wire.Refused) -> str:
        """A refusal in the server's words, with what to do next and, for a wrong name, the names it knows."""
        key_set = self.key.get_secret_value() != NO_KEY
        lines = [f"the server refused the request. {refused}", wire.next_step(refused, self.config, key_set)]
        if refused.status == 404:
            try:
                async with asyncio.timeout(10):
                    reply = await client.get("/models", cast_to=httpx2.Response)
                names = [one["id"] for one in reply.json()["data"]][:20]
                lines.append(f"The server's models: {', '.join(names)}")
            except (
                openai.OpenAIError,
                httpx2.HTTPError,
                aiohttp.ClientError,
                OSError,
                ValueError,
                LookupError,
                TypeError,
            ):
                pass  # a server need not list them
        return "\n".join(lines)

    def hide(self, text: str) -> str:
        """``text`` without the key: servers echo it, exceptions may hold headers."""
        return wire.redacted(text, self.key.get_secret_value())


class _Crew:
    """The event loop in its thread, its workers, and what goes to and fro. ``out`` samples are under way."""

    def __init__(self, sampler: OpenAISampler) -> None:
        self.sampler = sampler
        self.out = 0
        self.loop = asyncio.new_event_loop()
        self.feed: asyncio.Queue[list[Request]] = asyncio.Queue()
        self.arrived: deque[list[Sample] | Exception] = deque()
        self.news = threading.Event()  # something has arrived
        self.stopping = asyncio.Event()
        # A daemon, so that an interpreter that ends in the middle of a run does not wait for a server.
        self.thread = threading.Thread(target=self._run, name="gsm8k_nb requests", daemon=True)
        self.thread.start()

    def take(self, groups: Iterator[list[Request]]) -> bool:
        """Fill the workers' queue, by the consumer's thread; False once there are no more requests."""
        concurrency = self.sampler.config.concurrency
        new: list[list[Request]] = []
        try:
            while self.out < (concurrency + min(concurrency, AHEAD)) * self.sampler.most_choices:
                group = next(groups, None)
                if group is None:
                    return False
                new.append(group)
                self.out += len(group)
            return True
        finally:
            with suppress(RuntimeError):  # the loop has ended; ``collect`` says why
                self.loop.call_soon_threadsafe(self._put, new)

    def collect(self, batch: list[Sample], until: float) -> None:
        """Wait for something to arrive, or until the time of ``until``, and add all there is to ``batch``."""
        if self.out and self.news.wait(max(until - time.monotonic(), 0.001)):
            self.news.clear()
            self.drain(batch)

    def drain(self, batch: list[Sample]) -> None:
        """Add to ``batch`` what has arrived, without waiting. An error that has arrived is raised."""
        while self.arrived:
            made = self.arrived[0]
            if isinstance(made, SamplerError):  # without the other thread's frames, where headers are
                raise SamplerError(str(made)) from None
            if isinstance(made, Exception):
                raise made
            n_made = len(made)
            # Python looks for a Ctrl-C after calls and at jumps only: these three statements have neither, so that
            # a sample is in one place, never in both or none.
            batch += made
            del self.arrived[0]
            self.out -= n_made

    def stop(self) -> None:
        """Cancel what is under way and end the thread. Safe to repeat."""
        if self.thread.is_alive():
            with suppress(RuntimeError):  # it ended in between
                self.loop.call_soon_threadsafe(self.stopping.set)
            self.thread.join()

    def hand_over(self, made: list[Sample] | Exception) -> None:
        self.arrived.append(made)
        self.news.set()

    def _put(self, groups: list[list[Request]]) -> None:
        for group in groups:
            self.feed.put_nowait(group)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self._serve())
            except BaseExceptionGroup as group:
                self.hand_over(group.exceptions[0])
            except Exception as error:
                self.hand_over(error)

    async def _serve(self) -> None:
        config = self.sampler.config
        limits = httpx2.Limits(max_connections=config.concurrency, keepalive_expiry=30)
        timeout = openai.Timeout(config.request_timeout, connect=min(config.request_timeout, 30))
        client = openai.AsyncOpenAI(
            api_key=self.sampler.key.get_secret_value(),
            base_url=config.base_url or OPENAI_URL,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAioHttpClient(limits=limits, timeout=timeout, verify=self.sampler.tls),
        )
        async with client, asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(client)) for _ in range(config.concurrency)]
            await self.stopping.wait()
            for worker in workers:
                worker.cancel()

    async def _work(self, client: openai.AsyncOpenAI) -> None:
        while True:
            group = await self.feed.get()
            made, left = await self.sampler.answer(client, group)
            self.hand_over(made)
            if left and self.sampler.most_choices == 1:
                self._put([[one] for one in left])
            elif left:
                self._put([left])


def read_key(config: RunConfig) -> SecretStr:
    """The key in the environment variable ``api_key_env``, or a placeholder for a server that may want none."""
    name = config.api_key_env
    key = os.environ.get(name, "").strip()
    if not key and config.base_url is None:
        raise SamplerError(
            f"api_key_env: the environment variable {name} is not set; export {name}=... in the shell that starts "
            "this, or set base_url for a server of your own"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SamplerError(f"api_key_env: what {name} holds is no key: it has blanks or odd characters in it")
    return SecretStr(key or NO_KEY)


def _pause(tries: int, asked: float | None) -> float:
    """Seconds before the next try: drawn from 0 to a bound that doubles, or more where the server asks for more."""
    return max(asked or 0.0, random.uniform(0, min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT)))


def _stopped_in_thought(choice: dict[str, Any]) -> bool:
    text, _ = wire.contents(choice)
    return choice.get("finish_reason") == "stop" and bool(text.strip()) and not without_reasoning(text)


def _say(line: str) -> None:
    print(f"\nopenai sampler: {line}", flush=True)
