"""GSM8K's problems, from the hub, a JSONL file or the bundled classroom set, checked by sha256.

One row of the official file, and what is made of it:

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

from gsm8k_nb.answers import gold_of
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import OFFICIAL_FILES, find_path
from gsm8k_nb.records import Problem, parse_lines
from gsm8k_nb.texts import one_line

HUB_ID = "openai/gsm8k"
HUB_REVISION = "740312add88f781978c0658806c59bc2815b9866"
N_TEST = 1319
MEND = "mend that line, or fetch the file again"
OFFICIAL = {
    ("main", "test"): "test.jsonl",
    ("socratic", "test"): "test_socratic.jsonl",
    ("main", "train"): "train.jsonl",
}

# sha256 of each official split's questions, sorted: main and socratic have the same ones.
QUESTIONS_SHA256 = {
    "test": "43bb1a1f34b3cf6ef37cd0c13de5eb5c93934597459eaf9531536fb525b6b81e",
    "train": "33e8de153ec68ad9966af60a7d6b12053a4a50be97df05a80fe29697bacb7ee1",
}
FIRST_TRAIN_QUESTION_SHA256 = "73429d562982300e6643d83a84428a22e0656773b67dad037d2de2f8bc0b45b9"


class DataError(ValueError):
    """A data set cannot be read: the message names the file, the row, and what to do."""


@dataclass(frozen=True)
class Dataset:
    """A loaded split: all its problems in file order, and where they came from."""

    name: str  # gsm8k, unverified or classroom
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
    problems, replayed = dataset.problems, _replayed_ids(config)
    if replayed is not None:
        problems = [problem for problem in problems if problem.id in replayed]
    return dataset, choose(problems, config.limit, config.shuffle, config.seed)


def _replayed_ids(config: RunConfig) -> set[str] | None:
    """The ids of the problems of the run folder that is replayed, or None where none is."""
    if config.sampler != "replay":
        return None
    file = find_path(config.replay_path or "", "replay_path") / "problems.jsonl"
    if not file.is_file():
        return None
    return {json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines() if line.strip()}


def open_dataset(
    dataset: str = "gsm8k", *, config: str = "main", split: str = "test", path: str | None = None
) -> Dataset:
    """A whole split: the classroom set, a JSONL file (``path``), or ``openai/gsm8k`` at the pinned revision."""
    if dataset == "classroom":
        if path is not None:
            raise DataError(
                f"data_path: the classroom set is bundled and takes no path, got {path!r}; use dataset: gsm8k"
            )
        file = resources.files("gsm8k_nb").joinpath("assets", "classroom.jsonl")
        raw = file.read_bytes()
        rows = parse_jsonl(raw, "classroom.jsonl")
        return _dataset("classroom", "main", "test", rows, _sha256(raw), "bundled with gsm8k_nb", True)
    if dataset != "gsm8k":
        raise DataError(f"dataset: unknown name {dataset!r}; known: gsm8k, classroom")
    official_name = OFFICIAL.get((config, split))
    official = OFFICIAL_FILES.get(official_name or "")
    if path is None and official_name and os.environ.get("GSM8K_NB_DATA"):
        path = f"gsm8k:{official_name}"
    if path is not None:
        file = find_path(path, "data_path")
        if not file.is_file():
            raise DataError(f"data_path: must be a JSONL file, got the folder {path!r}; name the file in it")
        raw = file.read_bytes()
        _refuse_other_formats(raw, file)
        rows = parse_jsonl(raw, str(file))
        _refuse_other_split(rows, split, path)
        digest = _sha256(raw)
        if digest != official and _sha256(canonical_jsonl(rows)) == official:  # a converted copy, row for row
            digest = official
        return _dataset("gsm8k", config, split, rows, digest, path, digest == official)
    rows = _hub_rows(config, split)
    digest = _sha256(canonical_jsonl(rows))
    return _dataset("gsm8k", config, split, rows, digest, f"{HUB_ID}@{HUB_REVISION}", digest == official)


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
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = raw[: error.start].count(b"\n") + 1
        raise DataError(f"{name}, line {number}: not valid UTF-8 ({error.reason}); {MEND}") from None
    for number, row in parse_lines(text.split("\n")):
        if isinstance(row, ValueError):
            raise DataError(f"{name}, line {number}: {row}; {MEND}")
        for key in ("question", "answer"):
            if not isinstance(row, dict) or not isinstance(row.get(key), str) or not row[key].strip():
                raise DataError(f"{name}, line {number}: needs a text {key!r}, got {one_line(repr(row), 80)}; {MEND}")
        rows.append(row)
    if not rows:
        raise DataError(f"{name}: holds no problems; fetch the file again")
    return rows


def _refuse_other_formats(raw: bytes, file: Path) -> None:
    """DataError for a file that is plainly no JSON Lines, with the line of Python that makes it so.

    A CSV file, a parquet file and one JSON list are how GSM8K is passed on, too.
    """
    start = raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if raw.startswith(b"PAR1"):
        kind, read = "parquet", "read_parquet"
    elif start == b"[":
        kind, read = "one JSON list", "read_json"
    elif start != b"{" and file.suffix.lower() in (".csv", ".tsv"):
        kind, read = "CSV", "read_csv"
    else:
        return
    raise DataError(
        f"data_path: {file} is {kind}, and must be JSON Lines: one object with 'question' and 'answer' a line. Convert "
        f"it: pandas.{read}({str(file)!r}).to_json('test.jsonl', orient='records', lines=True)"
    )


def _refuse_other_split(rows: list[dict[str, str]], split: str, path: str) -> None:
    """DataError where a file is the other official split, or begins as train does: told by its questions alone.

    Exemplars and tuning come from train and scores from test, so a file under the wrong name gives a false number.
    """
    questions = [" ".join(row["question"].split()) for row in rows]
    digest = _sha256("\n".join(sorted(questions)).encode())
    whole = next((name for name, known in QUESTIONS_SHA256.items() if digest == known), None)
    trained_on = FIRST_TRAIN_QUESTION_SHA256 in map(_sha256, map(str.encode, questions))
    if split == "test" and (whole == "train" or trained_on):
        raise DataError(
            f"data_path: {path!r} holds {'the' if whole else 'problems of the'} train split, and only the test split "
            "is scored: name the file of the test split"
        )
    if split == "train" and whole == "test":
        raise DataError(
            f"train_path: {path!r} is the test split, and exemplars are drawn from train: name the file of that split"
        )


def canonical_jsonl(rows: list[dict[str, str]]) -> bytes:
    """Rows as the official files write them, so that a copy in another format has the published sha256."""
    lines = [json.dumps({"question": row["question"], "answer": row["answer"]}) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def _dataset(
    name: str, config: str, split: str, rows: list[dict[str, str]], sha256: str, source: str, verified: bool
) -> Dataset:
    prefix = "classroom" if name == "classroom" else split
    problems = [_problem(f"{prefix}-{index:04d}", index, row, source) for index, row in enumerate(rows)]
    return Dataset(name, config, split, problems, sha256, source, verified)


def _problem(identifier: str, index: int, row: dict[str, str], source: str) -> Problem:
    try:
        answer = gold_of(row["answer"])
    except ValueError as error:
        raise DataError(f"{source}, row {index}: {error}; {MEND}") from None
    return Problem(identifier, row["question"], row["answer"], answer)


def _hub_rows(config: str, split: str) -> list[dict[str, str]]:
    """The split from the hub's parquet files. Any failure to reach it becomes one DataError within seconds."""
    from gsm8k_nb import places

    places.reachable()
    import datasets

    try:
        table = datasets.load_dataset(HUB_ID, config, split=split, revision=HUB_REVISION)
    except Exception as error:
        # The library raises a dozen unrelated kinds here (HTTP, DNS, cache, offline mode); all mean "not to be had".
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise DataError(
            f"{HUB_ID} ({config}, {split}) could not be loaded from the hub: {reason}. Without a network, set "
            "data_path to a JSONL copy of the official file (gsm8k:test.jsonl is fetched from its repository), or "
            "dataset: classroom for the bundled set."
        ) from None
    return [{"question": row["question"], "answer": row["answer"]} for row in table]


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
