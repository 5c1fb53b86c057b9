"""GSM8K's problems, from the hub, a JSONL file or the bundled classroom set, checked by sha256.

    {"question": "Janet's ducks lay 16 eggs ...", "answer": "... makes 9 * 2 = $<<9*2=18>>18 every day.\\n#### 18"}
    Problem(id="test-0000", question="Janet's ducks ...", solution="... \\n#### 18", answer=Decimal("18"))

There is no silent fallback: what is asked for is loaded, or one error says what else could be asked for.
"""

import hashlib
import json
import os
import random
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gsm8k_nb import places
from gsm8k_nb.answers import gold_of
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem, parse_json, parse_lines, parse_records
from gsm8k_nb.texts import one_line

HUB_ID = "openai/gsm8k"
HUB_REVISION = "740312add88f781978c0658806c59bc2815b9866"
N_TEST = 1319
MEND = "mend that line, or fetch the file again"


class DataError(ValueError):
    """A data set cannot be read: the message names the file, the row, and what to do."""


@dataclass(frozen=True)
class Dataset:
    """A loaded split: all its problems in file order, and where they came from."""

    name: str  # gsm8k or classroom
    config: str
    split: str
    problems: list[Problem]
    sha256: str
    source: str
    verified: bool  # the sha256 is the published one (or the bundled set's own file)

    @property
    def label(self) -> str:
        """How a headline names it; only the official test split is ever called plain ``gsm8k``."""
        return self.name if self.verified else f"unverified {Path(self.source).name}"


def load(
    dataset: str = "gsm8k",
    *,
    config: str = "main",
    split: str = "test",
    path: str | None = None,
    limit: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
) -> list[Problem]:
    """The problems to score: ``open_dataset`` then ``choose``. DataError where they cannot be had."""
    return choose(open_dataset(dataset, config=config, split=split, path=path).problems, limit, shuffle, seed)


def load_for(config: RunConfig) -> tuple[Dataset, list[Problem]]:
    """The data set that a run's parameters name, and the problems of it that the run uses.

    A replay of a run folder is of the problems of that run: it has no completions of others.
    """
    dataset = open_dataset(config.dataset, config=config.dataset_config, split=config.split, path=config.data_path)
    problems = dataset.problems
    if config.sampler == "replay":
        folder = places.find_path(config.replay_path or "", "replay_path")
        if (folder / "problems.jsonl").is_file():
            replayed = _problem_ids(folder)
            problems = [problem for problem in problems if problem.id in replayed]
    return dataset, choose(problems, config.limit, config.shuffle, config.seed)


def _problem_ids(folder: Path) -> set[str]:
    """The ids of a run's problems. DataError where they are not, to the byte, those that the run began with."""
    try:
        raw, config = (folder / "problems.jsonl").read_bytes(), folder / "config.json"
        ids = {problem.id for problem in parse_records(Problem, raw.decode().splitlines())}
        run = parse_json(config.read_bytes()) if config.is_file() else {}
        if not ids or run.get("inputs", {}).get("problems_sha256") not in (None, _sha256(raw)):
            raise ValueError("it was cut or changed after it was written")
    except (OSError, ValueError, AttributeError) as error:
        fault = f"replay_path: {folder.name}/problems.jsonl is damaged ({one_line(error, 200)})"
        raise DataError(f"{fault}: put it right, or name the samples.jsonl beside it") from None
    return ids


def open_dataset(
    dataset: str = "gsm8k", *, config: str = "main", split: str = "test", path: str | None = None
) -> Dataset:
    """A whole split: the classroom set, a JSONL file (``path``), or ``openai/gsm8k`` at the pinned revision."""
    if dataset not in ("gsm8k", "classroom"):
        raise DataError(f"dataset: unknown name {dataset!r}; known: gsm8k, classroom")
    name = f"{split}.jsonl" if config == "main" else f"{split}_{config}.jsonl"
    official = places.OFFICIAL_FILES.get(name)
    if dataset == "classroom":
        if path is not None:
            raise DataError(f"data_path: the classroom set is bundled and takes no path, got {path!r}")
        raw = resources.files("gsm8k_nb").joinpath("assets", "classroom.jsonl").read_bytes()
        rows, source, digest = parse_jsonl(raw, "classroom.jsonl"), "bundled with gsm8k_nb", _sha256(raw)
        official, config, split, prefix = digest, "main", "test", "classroom"
    else:
        prefix, source = split, path or (places.OFFICIAL + name if official and os.environ.get("GSM8K_NB_DATA") else "")
        rows, digest = _file_rows(source, split) if source else _hub_rows(config, split)
        if _sha256(canonical_jsonl(rows)) == official:  # also where it is a converted copy, row for row
            digest = official
    source = source or f"{HUB_ID}@{HUB_REVISION}"
    problems = [_problem(f"{prefix}-{index:04d}", row, f"{source}, row {index}") for index, row in enumerate(rows)]
    return Dataset(dataset, config, split, problems, digest, source, digest == official)


def _problem(identifier: str, row: dict[str, str], place: str) -> Problem:
    try:
        return Problem(identifier, row["question"], row["answer"], gold_of(row["answer"]))
    except ValueError as error:
        raise DataError(f"{place}: {error}; {MEND}") from None


def choose(problems: list[Problem], limit: int | None, shuffle: bool = False, seed: int = 0) -> list[Problem]:
    """The first ``limit`` problems, after a seeded shuffle if asked: a larger limit always extends a smaller one."""
    if limit is not None and limit < 1:
        raise DataError(f"limit: must be at least 1, got {limit}")
    chosen = list(problems)
    if shuffle:
        random.Random(seed).shuffle(chosen)
    return chosen[:limit]


def parse_jsonl(raw: bytes, name: str) -> list[dict[str, str]]:
    """Rows with ``question`` and ``answer`` texts. DataError names the file and the line of the first bad one."""
    rows = []
    try:
        for number, row in parse_lines(raw.decode("utf-8-sig").split("\n")):
            for key in ("question", "answer"):
                if not isinstance(row, dict) or not isinstance(row.get(key), str) or not row[key].strip():
                    raise ValueError(f"line {number}: needs a text {key!r}, got {one_line(repr(row), 80)}")
            rows.append(row)
    except UnicodeDecodeError as error:
        number = raw[: error.start].count(b"\n") + 1
        raise DataError(f"{name}, line {number}: not valid UTF-8 ({error.reason}); {MEND}") from None
    except ValueError as error:
        raise DataError(f"{name}, {error}; {MEND}") from None
    if not rows:
        raise DataError(f"{name}: holds no problems; fetch the file again")
    return rows


def _file_rows(path: str, split: str) -> tuple[list[dict[str, str]], str]:
    """The rows of a file and its sha256. DataError where it is no JSON Lines, or of the other split."""
    file = places.find_path(path, "data_path")
    if not file.is_file():
        raise DataError(f"data_path: must be a JSONL file, got the folder {path!r}; name the file in it")
    raw = file.read_bytes()
    start = raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    other = "csv" if start != b"{" and file.suffix.lower() in (".csv", ".tsv") else "json" if start == b"[" else ""
    if other := "parquet" if raw.startswith(b"PAR1") else other:  # as GSM8K is passed on, too
        raise DataError(
            f"data_path: {file} is {other}, and must be JSON Lines: an object with 'question' and 'answer' a line. "
            f"Convert it: pandas.read_{other}({str(file)!r}).to_json('test.jsonl', orient='records', lines=True)"
        )
    rows = parse_jsonl(raw, str(file))
    _refuse_other_split(rows, split, path)
    return rows, _sha256(raw)


def _refuse_other_split(rows: list[dict[str, str]], split: str, path: str) -> None:
    """DataError where a file holds a question of the other official split; the sha256 of each is in the package."""
    name, other = ("data_path", "train") if split == "test" else ("train_path", "test")
    known = set(places.own_asset(f"{other}_questions.txt").split())
    digests = [_sha256(" ".join(row["question"].split()).encode(errors="replace")) for row in rows]
    if n := sum(digest[:10] in known for digest in digests):
        raise DataError(
            f"{name}: {path!r} holds problems of the {other} split, {n} of {len(rows)}, and only the test split is "
            f"scored, by exemplars of train: name the file of the {split} split"
        )


def canonical_jsonl(rows: list[dict[str, str]]) -> bytes:
    """Rows as the official files write them, so that a copy in another format has the published sha256."""
    lines = (json.dumps({"question": row["question"], "answer": row["answer"]}) + "\n" for row in rows)
    return "".join(lines).encode()


def _hub_rows(config: str, split: str) -> tuple[list[dict[str, str]], str]:
    """The split from the hub's parquet files, and its sha256 as JSON Lines. DataError where it is not to be had."""
    places.reachable()
    import datasets

    try:
        table = datasets.load_dataset(HUB_ID, config, split=split, revision=HUB_REVISION)
    except Exception as error:  # of a dozen unrelated kinds (HTTP, DNS, cache, offline mode)
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise DataError(
            f"{HUB_ID} ({config}, {split}) could not be loaded from the hub: {reason}. Without a network, set "
            "data_path to a JSONL copy of the official file (gsm8k:test.jsonl is fetched from its repository), or "
            "dataset: classroom for the bundled set."
        ) from None
    rows = [{"question": row["question"], "answer": row["answer"]} for row in table]
    return rows, _sha256(canonical_jsonl(rows))


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
