"""Python processes that start at once: forked from one that has loaded the libraries, which takes most of a start.

    python tests/warm.py serve SOCKET                loads them, then forks for everyone who asks
    python -S tests/warm.py run SOCKET -m MODULE ...     as python -m MODULE ..., in this folder and environment

Only libraries are loaded beforehand, nothing of the package. The process has the caller's standard streams, gets its
signals, and dies with it. ``GSM8K_NB_COLD=1`` makes every process start by itself, as do systems without ``pidfd``.
"""

import array
import contextlib
import json
import os
import signal
import socket
import sys
import time

LIBRARIES = (
    "numpy", "pandas", "scipy.stats", "scipy.optimize", "matplotlib.figure", "matplotlib.backends.backend_agg",
    "jinja2", "pydantic", "yaml", "filelock", "tqdm", "tabulate", "IPython", "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "matplotlib_inline.backend_inline", "papermill.cli", "nbclient", "huggingface_hub", "datasets", "openai", "aiohttp",
    "torch", "transformers", "transformers.modeling_utils", "transformers.generation", "transformers.cache_utils",
    "transformers.models.llama.modeling_llama", "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto", "transformers.integrations.finegrained_fp8",
)  # fmt: skip
KERNEL_BACKEND = "module://matplotlib_inline.backend_inline"  # read when matplotlib is loaded


def serve(path: str) -> None:
    import gc
    import importlib

    sys.path.pop(0)  # the folder of this file
    os.environ["MPLBACKEND"] = KERNEL_BACKEND
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    gc.freeze()  # memory stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those in between
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path + ".new")
        listening.listen(64)
        os.rename(path + ".new", path)  # there is someone to ask from now on
        parent = os.getppid()
        listening.settimeout(1)
        while os.getppid() == parent:
            try:
                asking, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listening.close()
                asking.setblocking(True)
                _keep(asking)
            asking.close()


def _keep(asking: socket.socket) -> None:
    """Start what is asked for, pass on signals, and tell how it ended. Does not return but in the process itself."""
    import select

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    raw, streams = b"", array.array("i")
    while not raw.endswith(b"\0"):
        data, ancillary, *_ = asking.recvmsg(1 << 16, socket.CMSG_SPACE(3 * streams.itemsize))
        raw += data
        for _, _, numbers in ancillary:
            streams.frombytes(numbers)
    what = json.loads(raw[:-1])
    child = os.fork()
    if child == 0:
        asking.close()
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        _become(what)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([asking, ended], [], [])
        if ended in ready:
            _, status = os.waitpid(child, 0)
            asking.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        got = asking.recv(64)
        for number in got or [signal.SIGKILL]:  # it asks no more: it was killed
            os.kill(child, number)
        if not got:
            os._exit(0)


def _become(what: dict) -> None:
    import runpy
    import traceback

    os.chdir(what["folder"])
    os.environ.clear()
    os.environ.update(what["environment"])
    if "JPY_PARENT_PID" in os.environ:
        os.environ["JPY_PARENT_PID"] = str(os.getppid())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "rww"[n], 1, closefd=False) for n in range(3))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    for absent in os.environ.get("GSM8K_NB_WITHOUT", "").split():  # as where these are not installed
        sys.modules.update(dict.fromkeys([name for name in sys.modules if name.split(".")[0] == absent] + [absent]))
    way, target, *arguments = what["arguments"]
    sys.argv = [target if way == "-m" else "-c", *arguments]
    sys.path[:] = [""] + what["environment"].get("PYTHONPATH", "").split(os.pathsep) + [p for p in sys.path if p]
    code = 0
    try:
        if way == "-m":
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            exec(compile(target, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def run(path: str, arguments: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as asked:
        while True:
            try:
                asked.connect(path)
                break
            except FileNotFoundError:  # it is still loading
                time.sleep(0.05)
        what = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda number, _: asked.send(bytes([number])))
        first = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        raw = json.dumps(what).encode() + b"\0"
        asked.sendall(raw[asked.sendmsg([raw], first) :])
        code = json.loads(asked.recv(64) or b"1")
    if code < 0:  # by a signal: so does this one
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def python() -> list[str]:
    """The beginning of a command that runs Python: followed by -m or -c and what these take."""
    path = os.environ.get("GSM8K_NB_WARM", "")
    return [sys.executable, "-S", __file__, "run", path] if path else [sys.executable]


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1] == "serve" else run(sys.argv[2], sys.argv[3:]))
