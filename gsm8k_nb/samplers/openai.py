"""Any OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, TGI, hosted APIs) through the official SDK.

consumer's thread   takes requests from the iterable, a few ahead; hands on what has arrived, twice a second
event loop          a task a group of requests, ``concurrency`` of them under way

The SDK sends without its typed layer: converting an 8-shot prompt there takes longer than all the rest. It would retry
most failures, but not a truncated body nor an answer without choices, so retries are made here, in one place.
"""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from typing import Any

import aiohttp
import httpx2
import openai

from gsm8k_nb.answers.passages import parted
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, refusals, wire
from gsm8k_nb.samplers.crew import Crew, open_client
from gsm8k_nb.samplers.refusals import Failure, Refused
from gsm8k_nb.samplers.server import OPENAI_URL, Key, listed

HAND_ON_SECONDS = 0.5
AHEAD = 64  # requests taken from the iterable before they can be sent, at most
MAX_CHOICES = 16  # asked for in one request: saves all but a sixteenth of the prompts, and little is lost with one
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds: the first and the last of the bounds below which a wait is drawn
LONGEST_RETRY_AFTER = 600.0  # a server that asks for more patience ends the run
TOLD_WAIT = 10.0  # a longer wait before another try is told and recorded
TOLD_SILENCE = 60.0  # and so is, again at each doubling, that no answer has come for so long
CONNECT_TRIES = 3  # of a server that has not been reached once
ABOUT_ONE = {400, 413, 422}  # with these a server may refuse one prompt alone: too long for it, or of odd words
FAILED_IN_A_ROW = 64  # requests that failed for good, before the run stops


class OpenAISampler:
    """Asks a server; whether a chat template exists only it knows, so ``chat_template: plain`` asks for text.

    One ``sample`` at a time. What was learnt of the server (fields it refuses) is kept from one to the next.
    """

    has_chat_template = True

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.url = config.base_url or OPENAI_URL
        self.key = Key(config)
        self.learnt = refusals.Learnt("max_completion_tokens" if config.base_url is None else "max_tokens")
        self.learnt.dropped |= wire.omitted(config, self.learnt)
        self.tls = httpx2.create_ssl_context()  # takes longer than many requests
        self.stop: tuple[str, ...] = ()
        self.counts: Counter[str] = Counter()  # failed tries by kind
        self.endpoints: dict[str, None] = {}  # ordered sets
        self.models: dict[str, None] = {}
        self.fingerprints: dict[str, None] = {}
        self.reached = self.gave_several = self.takes_others = False
        self.failed_in_a_row = 0
        self.arrived: list[Sample] = []  # to be handed on
        self.asked = self.answered = 0  # samples; the rest of what was asked is under way
        self.error: Exception | None = None  # that ends the run
        self.news = threading.Event()  # something has arrived
        self.long_waits: list[float] = []  # seconds
        self.told_until = 0.0

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        """Samples as they arrive. Where it is interrupted or must stop, what has arrived is handed on first."""
        self.stop, self.arrived, self.asked, self.answered, self.error = tuple(stop), [], 0, 0, None
        crew = Crew(open_client(self.config, self.key, self.tls), self.config.concurrency)
        try:
            yield from self._hand_on(crew, requests)
        except GeneratorExit:
            raise
        except BaseException:  # Ctrl-C too: these are paid for
            crew.stop()
            if self.arrived:
                yield self.arrived
            raise
        finally:
            crew.stop()

    def _hand_on(self, crew: Crew, requests: Iterable[Request]) -> Iterator[list[Sample]]:
        """What has arrived, twice a second; says where nothing does."""
        groups, more = self._groups(requests), True
        heard, patience = time.monotonic(), TOLD_SILENCE
        due = heard + HAND_ON_SECONDS
        ahead = self.config.concurrency + min(self.config.concurrency, AHEAD)
        while more or self.arrived or self.asked > self.answered:
            while more and self.asked - self.answered < ahead * self.most_choices:
                if group := next(groups, None):
                    self.asked += len(group)
                    crew.begin(self._answer_all, crew, group)
                else:
                    more = False
            if more or self.asked > self.answered:
                self.news.wait(max(due - time.monotonic(), 0))
            self.news.clear()
            if isinstance(self.error, SamplerError):  # without the other thread's frames, where headers are
                raise SamplerError(str(self.error)) from None
            if self.error:
                raise self.error
            now, n = time.monotonic(), len(self.arrived)
            if n:
                heard, patience = now, TOLD_SILENCE
            elif now - heard > patience:
                _say(f"nothing has come for {patience:.0f} seconds; {self.asked - self.answered} samples are under way")
                patience *= 2
            if now >= due or not more and self.asked == self.answered:
                due = now + HAND_ON_SECONDS
                # Python looks for a Ctrl-C after calls and at jumps only: these statements have neither, so that a
                # sample is in one place, never in both or none.
                ready = self.arrived[:n]
                del self.arrived[:n]
                if n:
                    yield ready

    def describe(self) -> dict[str, Any]:
        dropped = self.learnt.dropped
        several = "no, asked for singly" if "n" in dropped else "yes" if self.gave_several else "not asked for"
        return {
            "engine": f"openai {openai.__version__}, aiohttp {aiohttp.__version__}",
            "base_url": self.url,
            "endpoints": list(self.endpoints),
            "model": list(self.models),
            "system_fingerprint": list(self.fingerprints),
            "sampling": {
                "method": "greedy" if self.config.temperature == 0 else "sampling",
                **wire.fields(self.config, self.learnt, self.stop),
                "seed": "not sent" if "seed" in dropped else f"from {self.config.seed}, problem and sample",
            },
            "dropped_fields": dict(dropped),  # left out or renamed, with the server's words
            "several_choices_at_once": several,
            "retries": dict(self.counts),
            "waits_over_10_s": {"count": len(self.long_waits), "longest_s": max(self.long_waits, default=0)},
            "concurrency": self.config.concurrency,
            "repeatable": "not claimed: a server's batches change low bits",
        }

    def _groups(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        """Samples of one problem that go out as one request, taken from ``requests`` as late as possible."""
        for _, same in groupby(requests, key=lambda request: (request.problem.id, request.written)):
            while group := list(islice(same, self.most_choices)):
                yield group

    @property
    def most_choices(self) -> int:
        """How many samples to ask for in one request: one where the server gives one."""
        return 1 if "n" in self.learnt.dropped else min(self.config.n_samples, MAX_CHOICES)

    # ---- in the event loop's thread

    async def _answer_all(self, crew: Crew, group: list[Request]) -> None:
        """Samples for a group, as they arrive. Nothing is asked for after an error."""
        async with crew.slots:
            while group and self.error is None:
                try:
                    made = await self._answer(crew.client, group)
                    group = group[len(made) :]
                    self.arrived += made
                    self.answered += len(made)
                except Exception as error:
                    self.error = self.error or error  # the first counts
                self.news.set()

    async def _answer(self, client: openai.AsyncOpenAI, group: list[Request]) -> list[Sample]:
        """Samples for the first of a group, at least one. SamplerError where the run must stop."""
        asked, tries = group[: self.most_choices], 0
        while True:
            tries += 1
            try:
                made = await self._try(client, asked)
            except Failure as failure:
                self.counts[failure.kind] += 1
                self._check_patience(failure, tries)
                if failure.again and tries <= self.config.max_retries:
                    await self._wait(failure, tries)
                    continue
                error = f"{failure} (tried {tries} times)" if failure.again else str(failure)
                made = [request.failed(error) for request in asked]
            self._count_failed(made)
            return made

    async def _try(self, client: openai.AsyncOpenAI, asked: list[Request]) -> list[Sample]:
        """One answer from the server. What it refuses is left out where that changes nothing, and asked again."""
        for _ in range(refusals.MOST_ADAPTIONS + 1):
            path, body = wire.request_body(self.config, self.learnt, asked[: self.most_choices], self.stop)
            self.endpoints[path] = None
            started = time.perf_counter()
            try:
                reply = wire.read_reply(await self._send(client, path, body), self.key)
            except Refused as refused:
                changed = self.learnt.adapt(refused, body)
                if changed is None and await self._refuses_all(refused, client, path, body):
                    raise SamplerError(await asyncio.to_thread(self._explain, refused)) from None
                if changed is None:
                    raise Failure(f"HTTP {refused.status}", refused.words, again=False) from None
                if changed:
                    _say(f"the server does not take {', '.join(changed)}; left out or renamed from now on ({refused})")
                continue
            self._note(reply, body)
            texts = [choice.text for choice in reply.choices if choice.finish_reason == "stop" and choice.text.strip()]
            tags = self.config.think_tags or ()
            if "stop" in body and not all(parted(text, tags).text for text in texts):
                self._drop("stop", "it ended a text inside its reasoning")
                continue
            return wire.samples(asked, reply, self.stop, time.perf_counter() - started, tags)
        raise AssertionError("each refusal changes the form of all requests: the bound is in refusals")

    async def _refuses_all(self, refused: Refused, client: openai.AsyncOpenAI, path: str, body: dict[str, Any]) -> bool:
        """Whether all requests are refused, and not one prompt alone: a short one in the same form is tried, once."""
        if refused.status in ABOUT_ONE and not self.takes_others:
            short = {"prompt": "1 + 1 ="} if "prompt" in body else {"messages": [{"role": "user", "content": "1 + 1"}]}
            with suppress(Failure, Refused):
                wire.read_reply(await self._send(client, path, body | short), self.key)
                self.takes_others = True
        return refused.status not in ABOUT_ONE or not self.takes_others

    async def _send(self, client: openai.AsyncOpenAI, path: str, body: dict[str, Any]) -> bytes:
        """The body of the server's answer. Failure or Refused where there is none."""
        try:
            # Over the whole: the SDK's own timeout is for each read, and a trickle never meets it.
            async with asyncio.timeout(self.config.request_timeout):
                reply = await client.post(path, body=body, cast_to=httpx2.Response)
        except openai.APIStatusError as error:
            reply = error.response
        except (TimeoutError, openai.APIConnectionError, aiohttp.ClientError, httpx2.HTTPError, OSError) as error:
            raise self._broken(error) from None
        self.reached = True
        if reply.status_code >= 400:
            raise refusals.failure(reply.status_code, reply.content, reply.headers, self.key.hide)
        return reply.content

    def _broken(self, error: BaseException) -> Failure:
        """A failure of the connection, by aiohttp's own exception: the layers above it name some of them wrongly."""
        while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError | TimeoutError):
            error = error.__cause__
        words = self.key.hide(f"{type(error).__name__} {error}")
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return Failure("no connection", words)
        self.reached = True
        if isinstance(error, TimeoutError):
            return Failure("timeout", f"no whole answer in {self.config.request_timeout:g} s (request_timeout)")
        return error if isinstance(error, Failure) else Failure("broken connection", words)

    def _drop(self, name: str, why: str) -> None:
        if name not in self.learnt.dropped:
            self.learnt.dropped[name] = why
            _say(f"{name} is left out from now on ({why})")

    def _note(self, reply: wire.Reply, body: dict[str, Any]) -> None:
        """Keep what an answer says of the server, and whether it gives several choices."""
        if reply.model and self.models and reply.model not in self.models:
            _say(f"the server answers by another model now: {reply.model!r}, before {', '.join(self.models)}")
        self.models |= {reply.model: None} if reply.model else {}
        self.fingerprints |= {reply.system_fingerprint: None} if reply.system_fingerprint else {}
        if "n" not in body:
            return
        self.gave_several |= len(reply.choices) > 1
        if len(reply.choices) < body["n"]:
            self.counts["fewer choices"] += 1
        if reply.counts_one:
            self._drop("n", "with it the server counts the tokens of one choice only")
        elif not self.gave_several:
            self._drop("n", f"a request for {body['n']} choices brought one")

    async def _wait(self, failure: Failure, tries: int) -> None:
        """Wait before the next try. More than ``TOLD_WAIT`` is told, once for all requests that wait so long."""
        seconds = _pause(tries, failure.retry_after)
        if seconds > TOLD_WAIT:
            self.long_waits.append(round(seconds, 1))
            if time.monotonic() + seconds > self.told_until + TOLD_WAIT:
                self.told_until = time.monotonic() + seconds
                _say(f"waiting {seconds:.0f} seconds before asking again ({failure}); interrupting loses nothing")
        await asyncio.sleep(seconds)

    def _check_patience(self, failure: Failure, tries: int) -> None:
        """SamplerError where going on would be in vain."""
        where = f"{self.url} (base_url)"
        never = failure.kind == "no connection" and not self.reached
        if never and tries >= min(CONNECT_TRIES, self.config.max_retries + 1):
            raise SamplerError(f"no server answers at {where}: {failure}\nStart the server, or correct base_url.")
        if (failure.retry_after or 0) > LONGEST_RETRY_AFTER:
            wait = f"{failure.retry_after:.0f} seconds ({failure})"
            raise SamplerError(f"the server asks to wait {wait}; run the same again after that")
        if failure.kind == "bad JSON" and not self.models and failure.words.startswith("<"):
            raise SamplerError(f"{where} answers with a web page; for most servers base_url ends in /v1\n{failure}")

    def _count_failed(self, made: list[Sample]) -> None:
        """SamplerError where nothing has gone right for long."""
        self.failed_in_a_row = self.failed_in_a_row + 1 if all(sample.error for sample in made) else 0
        if self.failed_in_a_row >= FAILED_IN_A_ROW:
            raise SamplerError(
                f"{self.failed_in_a_row} requests in a row failed for good, the last with {made[0].error}\n"
                "See to the server, then run the same again: what was finished is kept, the rest is asked for again."
            )

    def _explain(self, refused: Refused) -> str:
        """A refusal in the server's words, with what to do next and, for a wrong name, the names it knows."""
        step = refused.advice or "Change the parameters or the server accordingly, then run the same again."
        if refused.status in (401, 403):
            what = "holds a key that the server refuses" if self.key.is_set else "is not set, so a placeholder was sent"
            name = self.config.api_key_env
            step = f"The environment variable {name} (api_key_env) {what}: export the right key there."
        lines = [f"the server refused the request. {refused}", step]
        if refused.status == 404 and (names := [str(entry.get("id")) for entry in listed(self.config)]):
            lines.append(f"The server's models: {self.key.hide(', '.join(names[:20]))}")
        return "\n".join(lines)


def _pause(tries: int, asked: float | None) -> float:
    """Seconds before the next try: drawn from 0 to a bound that doubles, or more where the server asks for more."""
    return max(asked or 0.0, random.uniform(0, min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT)))


def _say(line: str) -> None:
    print(f"\nopenai sampler: {line}", flush=True)
