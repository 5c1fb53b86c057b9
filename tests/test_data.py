import hashlib
import json
from decimal import Decimal

import pytest

from gsm8k_nb import data, places
from gsm8k_nb.data import DataError

from .conftest import write_jsonl


def test_official_file_is_verified(official):
    dataset = data.open_dataset(path=str(official / "test.jsonl"))
    assert dataset.verified and dataset.label == "gsm8k"
    assert len(dataset.problems) == data.N_TEST
    assert [dataset.problems[0].id, dataset.problems[-1].id] == ["test-0000", "test-1318"]
    assert dataset.problems[0].answer == 18
    golds = [problem.answer for problem in dataset.problems]
    assert all(gold == gold.to_integral_value() for gold in golds)
    assert sum(gold < 0 for gold in golds) == 2 and sum(gold >= 1000 for gold in golds) == 131


def test_socratic_has_the_same_questions_and_golds(official):
    main = data.load(path=str(official / "test.jsonl"))
    socratic = data.open_dataset(config="socratic", path=str(official / "test_socratic.jsonl"))
    assert socratic.verified
    pairs = [(problem.question, problem.answer) for problem in main]
    assert pairs == [(problem.question, problem.answer) for problem in socratic.problems]


def test_a_copy_in_another_format_has_the_published_hash(official):
    rows = [json.loads(line) for line in (official / "test.jsonl").open()]
    shuffled_keys = [{"answer": row["answer"], "question": row["question"]} for row in rows]
    assert data.canonical_jsonl(shuffled_keys) == (official / "test.jsonl").read_bytes()


def test_another_file_is_labelled_unverified(data_file):
    dataset = data.open_dataset(path=str(data_file))
    assert not dataset.verified and dataset.label == "unverified small.jsonl"
    assert [problem.answer for problem in dataset.problems] == [Decimal(5), Decimal(48), Decimal(1200), Decimal(-1)]


def test_hub_rows_become_problems(monkeypatch, official):
    monkeypatch.delenv("GSM8K_NB_DATA", raising=False)
    rows = [json.loads(line) for line in (official / "test.jsonl").open()]
    asked = {}

    def load_dataset(*names, **options):
        asked.update(names=names, **options)
        return rows

    import datasets

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    dataset = data.open_dataset()
    assert dataset.verified and dataset.source == f"{data.HUB_ID}@{data.HUB_REVISION}"
    # the full name, a pinned revision, no code from the hub
    assert asked == {"names": ("openai/gsm8k", "main"), "split": "test", "revision": data.HUB_REVISION}


def test_unreachable_hub_is_one_clear_error(monkeypatch):
    monkeypatch.delenv("GSM8K_NB_DATA", raising=False)
    monkeypatch.setattr(places, "reachable", lambda: False)
    import datasets

    def fail(*names, **options):
        raise ConnectionError("no route\nand a long trace")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(DataError) as caught:
        data.open_dataset()
    message = str(caught.value)
    assert "data_path" in message and "dataset: classroom" in message and "trace" not in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "a"', "not valid JSON"),
        ('{"question": "a"}', "'answer'"),
        ('{"question": "", "answer": "#### 1"}', "'question'"),
        ('{"question": 3, "answer": "#### 1"}', "'question'"),
        ("[]", "'question'"),
    ],
)
def test_a_broken_line_is_named_by_number(tmp_path, line, message):
    file = tmp_path / "broken.jsonl"
    file.write_text('{"question": "a?", "answer": "#### 1"}\n\n' + line + "\n")
    with pytest.raises(DataError, match="broken.jsonl, line 3") as caught:
        data.load(path=str(file))
    assert message in str(caught.value)


def test_an_unparsable_gold_names_its_row(tmp_path):
    file = tmp_path / "bad.jsonl"
    write_jsonl(file, [{"question": "a?", "answer": "#### 1"}, {"question": "b?", "answer": "no number here"}])
    with pytest.raises(DataError, match="row 1"):
        data.load(path=str(file))


def test_empty_file_missing_file_and_unknown_name(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="no problems"):
        data.load(path=str(tmp_path / "empty.jsonl"))
    with pytest.raises(FileNotFoundError, match="data_path"):
        data.load(path=str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="known: gsm8k, classroom"):
        data.load("gsm9k")
    with pytest.raises(DataError, match="takes no path"):
        data.load("classroom", path="x")


def test_marks_folders_and_bytes_that_are_no_text(tmp_path):
    file = tmp_path / "marked.jsonl"
    line = b'{"question": "a?", "answer": "#### 1"}'
    file.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n")
    assert len(data.load(path=str(file))) == 1
    file.write_bytes(line + b"\n" + b'{"question": "\xff", "answer": "#### 1"}\n')
    with pytest.raises(DataError, match="marked.jsonl, line 2: not valid UTF-8"):
        data.load(path=str(file))
    with pytest.raises(DataError, match="must be a JSONL file, got the folder"):
        data.load(path=str(tmp_path))


def test_shuffle_comes_before_limit_and_a_larger_limit_extends():
    everything = data.load("classroom")
    few = data.load("classroom", limit=5, shuffle=True, seed=1)
    more = data.load("classroom", limit=9, shuffle=True, seed=1)
    assert few == more[:5]
    assert few != everything[:5]
    assert few != data.load("classroom", limit=5, shuffle=True, seed=2)
    assert data.load("classroom", limit=5) == everything[:5]
    with pytest.raises(DataError, match="limit"):
        data.load("classroom", limit=0)


def _crlf(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r\n")


def _keys_turned(raw: bytes) -> bytes:
    rows = map(json.loads, raw.splitlines())
    return b"".join(json.dumps({"answer": row["answer"], "question": row["question"]}).encode() + b"\n" for row in rows)


def _socratic(raw: bytes) -> bytes:
    """As the socratic file: the same questions and numbers, other solutions."""
    rows = map(json.loads, raw.splitlines())
    answers = ((row["question"], "How many? ** " + row["answer"]) for row in rows)
    return b"".join(json.dumps({"question": q, "answer": a}, ensure_ascii=False).encode() + b"\n" for q, a in answers)


def _reversed(raw: bytes) -> bytes:
    return b"\n".join(reversed(raw.splitlines()))


def _first_rows(raw: bytes) -> bytes:
    return b"\n".join(raw.splitlines()[:1319])


def _without_the_first(raw: bytes) -> bytes:
    return b"\n".join(raw.splitlines()[1:])


def _from_the_middle(raw: bytes) -> bytes:
    return b"\n".join(raw.splitlines()[4000:4040])


def _one_among_others(raw: bytes) -> bytes:
    return b'{"question": "How many?", "answer": "#### 3"}\n' + raw.splitlines()[7000]


PARTS = [_first_rows, _without_the_first, _from_the_middle, _one_among_others]


@pytest.mark.parametrize("made", [bytes, _crlf, _keys_turned, _socratic, _reversed, *PARTS])
def test_the_train_split_is_never_scored_under_another_name(official, tmp_path, made):
    file = tmp_path / "test.jsonl"
    file.write_bytes(made((official / "train.jsonl").read_bytes()))
    with pytest.raises(DataError, match="of the train split, .* and only the test split is scored"):
        data.load(path=str(file))
    assert data.load(split="train", path=str(file))[0].id == "train-0000"  # for exemplars it is the right one


def test_a_part_of_the_test_split_gives_no_exemplars_and_is_scored_as_unverified(official, tmp_path):
    file = tmp_path / "train.jsonl"
    file.write_bytes(_from_the_middle(b"\n".join((official / "test.jsonl").read_bytes().splitlines() * 4)))
    with pytest.raises(DataError, match="train_path: .* holds problems of the test split, 40 of 40"):
        data.load(split="train", path=str(file))
    assert data.open_dataset(path=str(file)).label == "unverified train.jsonl"
    file.write_text('{"question": "Half \\ud800 of a pair?", "answer": "#### 3"}\n')
    assert len(data.load(path=str(file))) == 1


def test_the_digests_of_questions_are_those_of_the_official_files(official):
    for name, n in (("test", 1319), ("train", 7473)):
        known = places.own_asset(f"{name}_questions.txt").split()
        rows = map(json.loads, (official / f"{name}.jsonl").read_text().splitlines())
        questions = (" ".join(row["question"].split()).encode() for row in rows)
        assert known == sorted(hashlib.sha256(question).hexdigest()[:10] for question in questions)
        assert len(set(known)) == n


@pytest.mark.parametrize("name", ["test.jsonl", "test_socratic.jsonl"])
def test_exemplars_are_not_drawn_from_the_test_split(official, name):
    with pytest.raises(DataError, match="train_path: .* holds problems of the test split"):
        data.load(split="train", path=str(official / name))
