"""A server with OpenAI's completions API, started for this one measurement; all requests are sent at once.

The job has ``command`` (its start, a list), ``base_url`` and ``warm_up``: prompts of other problems, answered before
the clock starts, so that a server has compiled and cached all it can. Peak memory and processor time are summed over
the server's processes (Linux).
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 900  # seconds for a server to start


def main(job: dict) -> dict:
    started = time.perf_counter()
    with running(job) as server:
        ask_all(job, job["warm_up"])
        load_seconds = time.perf_counter() - started
        started, cpu = time.perf_counter(), tree(server.pid)[0]
        texts = ask_all(job, job["prompts"])
        seconds = time.perf_counter() - started
        after, peak_mb = tree(server.pid)
    return {
        "seconds": seconds, "load_seconds": load_seconds, "cpu_seconds": after - cpu, "peak_mb": peak_mb,
        "texts": texts, "versions": job["versions"],
    }  # fmt: skip


@contextmanager
def running(job: dict) -> Iterator[subprocess.Popen]:
    """The server of a job, started and ready, for as long as it is needed."""
    with open(job["log"], "w") as log:
        environment = os.environ | job.get("environment", {})
        server = subprocess.Popen(job["command"], stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        wait_until_ready(server, job)
        yield server
    finally:
        stop(server)


def stop(server: subprocess.Popen) -> None:
    """Ends the server and, where it does not end by itself, its group of processes."""
    server.terminate()
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_until_ready(server: subprocess.Popen, job: dict) -> None:
    health = job["base_url"].removesuffix("/v1") + "/health"
    for _ in range(PATIENCE):
        if server.poll() is not None:
            raise SystemExit(f"the server ended with code {server.returncode}; see {job['log']}")
        try:
            with urllib.request.urlopen(health, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise SystemExit(f"the server was not ready after {PATIENCE} s; see {job['log']}")


def ask_all(job: dict, prompts: list[str]) -> list[list[str]]:
    with ThreadPoolExecutor(max(len(prompts), 1)) as pool:
        return list(pool.map(lambda prompt: ask(job, prompt), prompts))


def ask(job: dict, prompt: str) -> list[str]:
    body = {
        "model": job["model"], "prompt": prompt, "max_tokens": job["max_new_tokens"], "stop": job["stop"],
        "temperature": job["temperature"], "n": job["n_samples"],
    }  # fmt: skip
    request = urllib.request.Request(
        job["base_url"] + "/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return [choice["text"] for choice in json.load(answer)["choices"]]


def tree(pid: int) -> tuple[float, float]:
    """Processor seconds and the sum of peak memory in MB of a process and all below it, as far as they still run."""
    seconds, megabytes = 0.0, 0.0
    for one in below(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{one}/status").read_text())
        except OSError:
            continue  # it has ended since
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system time
        megabytes += int(peak.group(1)) / 1024 if peak else 0
    return seconds, megabytes


def below(pid: int) -> list[int]:
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += below(int(child))
    return found


if __name__ == "__main__":
    result = main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")
