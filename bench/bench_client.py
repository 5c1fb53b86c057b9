"""What a client costs: 1319 requests of 50 ms at concurrency 64 to a server on this machine, at best 1.03 s.

    LM_EVAL_PYTHON=/path/to/venv/bin/python python bench/bench_client.py [--repeat 3]
    python bench/bench_client.py --many          # also 84,416 requests of 0 ms: does memory stay flat?

The server is a process of its own and answers every prompt, eight exemplars as turns, with the same text. Each client
is a process too: ``requests`` is from the first request to the last answer, ``process`` the whole of it with its
imports. Best of the repetitions. lm-eval asks by /completions and loads, scores and prints besides; its requests are as
its own bar says.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

CONCURRENCY, N_REQUESTS, DELAY = 64, 1319, 0.05
MANY = 64  # samples a problem
CLIENTS = ("bare aiohttp", "SDK, default client", "SDK, aiohttp client", "gsm8k_nb")
ANSWER = "She sells 16 - 3 - 4 = 9 eggs a day, for 9 * 2 = 18 dollars.\n#### 18"


# ---- the server


def serve(delay: float) -> None:
    """Answers both endpoints after ``delay`` seconds, one choice each. Prints its port, ends with its parent's pipe."""
    from aiohttp import web

    choice = {"index": 0, "text": ANSWER, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
    raw = json.dumps(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    ).encode()

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        if delay:
            await asyncio.sleep(delay)
        return web.Response(body=raw, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(site._server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(run())


# ---- the clients


def prompts_of(n: int) -> list[tuple]:
    """``n`` problems, the classroom's over and over under names of their own, with their prompts."""
    from dataclasses import replace

    from gsm8k_nb import data, prompts
    from gsm8k_nb.config import RunConfig

    config = RunConfig(dataset="classroom", prompt="wei_8shot")
    _, problems = data.load_for(config)
    form = prompts.prompt_for(config, problems)
    found = islice(cycle(problems), n)
    return [(replace(one, id=f"b-{i:06d}"), prompts.render(form, one.question, True)) for i, one in enumerate(found)]


def body_of(prompt: list[dict]) -> dict:
    return {"model": "m", "messages": prompt, "temperature": 0, "top_p": 1, "max_tokens": 256, "seed": 1}


async def asked_by(client: str, url: str) -> float:
    """Seconds that a bare client takes for all requests."""
    bodies = [body_of(prompt) for _, prompt in prompts_of(N_REQUESTS)]
    if client == "bare aiohttp":
        import aiohttp

        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY))

        async def ask(body: dict) -> None:
            async with session.post(f"{url}/chat/completions", json=body) as reply:
                json.loads(await reply.read())
    else:
        import openai

        http = openai.DefaultAioHttpClient() if "aiohttp" in client else None
        session = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http)

        async def ask(body: dict) -> None:
            await session.chat.completions.create(**body)

    left = iter(bodies)

    async def work() -> None:
        for body in left:
            await ask(body)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    seconds = time.perf_counter() - started
    await session.close()
    return seconds


def ours(url: str, n_samples: int) -> dict[str, float]:
    """Seconds that the sampler takes, and the memory it adds in MB."""
    from gsm8k_nb.config import RunConfig
    from gsm8k_nb.samplers import Request
    from gsm8k_nb.samplers.openai import OpenAISampler

    problems = prompts_of(N_REQUESTS)
    config = RunConfig(
        sampler="openai", model="m", base_url=url, concurrency=CONCURRENCY, n_samples=n_samples,
        temperature=0 if n_samples == 1 else 1,
    )  # fmt: skip
    sampler = OpenAISampler(config)

    def requests() -> Iterator[Request]:
        for problem, prompt in problems:
            for index in range(n_samples):
                yield Request(problem, index, prompt)

    before, started = memory(), time.perf_counter()
    n = sum(len(batch) for batch in sampler.sample(requests(), ()))
    assert n == N_REQUESTS * n_samples
    return {"requests": time.perf_counter() - started, "memory": memory() - before}


def memory() -> float:
    """The most memory this process had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def lm_eval(python: str, url: str) -> dict[str, float]:
    """lm-eval's run of its gsm8k_cot task on the same questions: seconds of its bar, and of the process."""
    import yaml

    from gsm8k_nb.places import asset_path

    with tempfile.TemporaryDirectory() as folder:
        problems = [problem for problem, _ in prompts_of(N_REQUESTS)]
        rows = [json.dumps({"question": one.question, "answer": one.solution}) for one in problems]
        Path(folder, "test.jsonl").write_text("\n".join(rows) + "\n")
        task = yaml.safe_load(asset_path("lm_eval", "lm_eval/tasks/gsm8k/gsm8k-cot.yaml").read_text())
        task |= {"task": "bench_client", "dataset_path": "json", "tag": None}
        task["dataset_kwargs"] = {"data_files": {"test": f"{folder}/test.jsonl"}}
        task.pop("dataset_name", None)
        Path(folder, "bench_client.yaml").write_text(yaml.safe_dump(task))
        arguments = f"model=m,base_url={url}/completions,num_concurrent={CONCURRENCY},tokenized_requests=False"
        command = [python, "-m", "lm_eval", "--model", "local-completions", "--include_path", folder]
        command += ["--model_args", f"{arguments},tokenizer_backend=None", "--tasks", "bench_client"]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": folder}
        started = time.perf_counter()
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
        seconds = time.perf_counter() - started
    bars = re.findall(rf"{N_REQUESTS}/{N_REQUESTS} \[(\d+):(\d+)<[^\]]*?([\d.]+)(it/s|s/it)", ran.stderr)
    if ran.returncode or not bars:
        sys.exit(f"lm-eval failed:\n{ran.stderr[-2000:]}")
    _, _, rate, unit = bars[-1]
    return {"requests": N_REQUESTS / float(rate) if unit == "it/s" else N_REQUESTS * float(rate), "process": seconds}


# ---- the table


def start_server(delay: float) -> tuple[subprocess.Popen, str]:
    command = [sys.executable, __file__, "--serve", str(delay)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return server, f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"


def measure(client: str, url: str, n_samples: int = 1) -> dict[str, float]:
    """One client in a process of its own."""
    command = [sys.executable, __file__, "--client", client, "--url", url, "--samples", str(n_samples)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(ran.stdout.splitlines()[-1]) | {"process": time.perf_counter() - started, "cpu": cpu}


def best(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(run[name] for run in runs) for name in runs[0]}


def main(repeat: int, many: bool) -> None:
    server, url = start_server(DELAY)
    rows = {client: best([measure(client, url) for _ in range(repeat)]) for client in CLIENTS}
    python = os.environ.get("LM_EVAL_PYTHON")
    rows["lm-eval"] = best([lm_eval(python, url) for _ in range(repeat)]) if python else {}
    server.communicate()
    print(f"{N_REQUESTS} requests of {DELAY * 1000:.0f} ms at concurrency {CONCURRENCY}, {os.cpu_count()} cores:\n")
    print("| client | requests, s | process, s | CPU, s |\n|---|---|---|---|")
    for client, row in rows.items():
        cells = [f"{row[name]:.2f}" if name in row else "-" for name in ("requests", "process", "cpu")]
        print(f"| {client} | {' | '.join(cells) if row else 'not run (LM_EVAL_PYTHON is not set) | |'} |")
    if many:
        server, url = start_server(0)
        row = measure("gsm8k_nb", url, MANY)
        server.communicate()
        print(f"\n{N_REQUESTS * MANY:,} requests of 0 ms: {row['requests']:.0f} s, {row['memory']:.0f} MB more memory.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--many", action="store_true")
    for hidden, kind in (("--serve", float), ("--client", str), ("--url", str), ("--samples", int)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
    elif given.client == "gsm8k_nb":
        print(json.dumps(ours(given.url, given.samples)))
    elif given.client:
        print(json.dumps({"requests": asyncio.run(asked_by(given.client, given.url))}))
    else:
        main(given.repeat, given.many)
