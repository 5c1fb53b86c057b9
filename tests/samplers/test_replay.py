import gzip
import json
import lzma
import tracemalloc
import zipfile

import pytest

from gsm8k_nb import data, protocol, sampling, summary
from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.samplers import SamplerError, open_sampler, replay

from ..conftest import write_jsonl

RIGHT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}


def evaluate(config: RunConfig) -> summary.Results:
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    sampling.fill(run, config, problems, prompt_for(config, problems))
    summary.score_run(run, config, problems)
    return summary.summarise(run, config)


def test_small_replay(replay_config):
    results = evaluate(replay_config)
    assert results.metrics["rules"]["strict"]["correct"] == 1
    assert results.metrics["rules"]["flexible"]["correct"] == 2
    health = results.metrics["health"]
    assert (health["requested"], health["failed"], health["truncated"], health["empty"]) == (4, 0, 1, 1)
    assert results.headline == (
        "unverified small.jsonl acc (a test, test@1, 4 of 4 problems, not the official file) = 0.5000 "
        "flexible, 0.2500 strict (####)"
    )


@pytest.mark.parametrize(("column", "right"), RIGHT.items())
def test_released_solutions(official, tmp_path, column, right):
    config = RunConfig(
        model=column,
        sampler="replay",
        data_path=str(official / "test.jsonl"),
        replay_path=str(official / "example_model_solutions.jsonl"),
        replay_column=column,
        protocol_label="fine-tuned, test@1",
        prompt="as_stored",
        headline_rule="flexible",
        n_resamples=100,
        outputs_dir=str(tmp_path),
    )
    results = evaluate(config)
    assert results.metrics["rules"]["flexible"]["correct"] == right
    assert results.metrics["dataset"]["complete"]
    assert results.headline == f"gsm8k acc (fine-tuned, test@1) = {right / 1319:.4f} flexible, 0.0000 strict (####)"
    assert results.metrics["health"]["truncated"] is None  # the source does not say how a text ended


def test_a_replay_of_our_own_run_keeps_its_protocol(replay_config, tmp_path):
    first = evaluate(replay_config)
    source = first.run.folder
    stored = first.run.read_json("config.json")
    stored |= {"sampler": "transformers", "prompt": "zero_shot", "replay_path": None, "protocol_label": None}
    first.run.write_json("config.json", stored)
    again = evaluate(replay_config.model_copy(update={"replay_path": str(source), "protocol_label": None}))
    assert again.metrics["protocol"]["label"] == "test@1, 0-shot CoT"
    assert protocol.headline_rule(again.config.model_copy(update={"headline_rule": "auto"}), again.inputs) == "strict"
    assert again.metrics["rules"]["flexible"] == first.metrics["rules"]["flexible"]


PACK = {"gz": gzip.compress, "xz": lzma.compress}


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("as_folder", [True, False], ids=["folder", "file"])
def test_a_compressed_store_replays_as_the_plain_one(replay_config, stored, ending, as_folder):
    plain = open_sampler(replay_config)
    packed = stored.with_name(f"samples.jsonl.{ending}")
    packed.write_bytes(PACK[ending](stored.read_bytes()))
    stored.unlink()
    config = replay_config.model_copy(update={"replay_path": str(packed.parent if as_folder else packed)})
    sampler = open_sampler(config)
    assert sampler.samples == plain.samples and len(sampler.samples) == 4
    assert sampler.describe() == plain.describe() | {"source": packed.name}  # the text's sha256, not the archive's
    assert evaluate(config).metrics["rules"]["flexible"]["correct"] == 2


@pytest.mark.parametrize("ending", PACK)
def test_a_damaged_archive_is_named(replay_config, stored, ending):
    packed = stored.with_name(f"samples.jsonl.{ending}")
    whole = PACK[ending](stored.read_bytes())
    for damaged in (whole[:-9], b"no archive", whole[:20] + b"\xff\xff\xff" + whole[23:]):
        packed.write_bytes(damaged)
        with pytest.raises(SamplerError, match=f"samples.jsonl.{ending} cannot be decompressed"):
            open_sampler(replay_config.model_copy(update={"replay_path": str(packed)}))


def test_a_folder_without_samples_says_which_files_would_do(replay_config, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SamplerError, match="without samples.jsonl or samples.jsonl.xz or samples.jsonl.gz"):
        open_sampler(replay_config.model_copy(update={"replay_path": str(tmp_path / "empty")}))


def test_foreign_texts_need_a_stated_protocol(replay_config):
    with pytest.raises(SamplerError, match="protocol_label"):
        open_sampler(replay_config.model_copy(update={"protocol_label": None}))


def test_wrong_column_is_named_with_the_right_ones(official, replay_config):
    file = str(official / "example_model_solutions.jsonl")
    with pytest.raises(SamplerError, match="6b_finetuning, 6b_verification.*got 'x'"):
        open_sampler(replay_config.model_copy(update={"replay_path": file, "replay_column": "x"}))


def test_what_is_not_stored_is_a_failure_not_a_wrong_answer(replay_config, stored):
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    write_jsonl(stored, rows[:3])
    results = evaluate(replay_config)
    assert results.metrics["health"]["failed"] == 1
    assert results.metrics["rules"]["flexible"]["n"] == 3
    assert "3 of 4 problems" in results.headline


def test_what_a_source_lacks_is_asked_of_it_once(replay_config, stored):
    rows = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join(rows[:2]))
    first = evaluate(replay_config).metrics
    again = evaluate(replay_config.model_copy(update={"headline_rule": "strict"})).metrics
    assert first["health"]["failed"] == again["health"]["failed"] == 2
    assert again["rules"]["strict"]["correct"] == 1


CUT = {
    "a row less": lambda raw: raw[: raw[:-1].rfind(b"\n") + 1],
    "half a row": lambda raw: raw[:-20],
    "half a letter": lambda raw: raw[:-20] + b"\xe2\x82",
    "another answer": lambda raw: raw.replace(b'"answer": "5"', b'"answer": "6"'),
    "empty": lambda raw: b"",
    "rows of no problem": lambda raw: b'{"id": 3}\n',
    "a list": lambda raw: b"[]\n",
}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_a_run_folder_with_other_problems_than_it_began_with_is_not_replayed(replay_config, cut):
    run = evaluate(replay_config).run
    config = replay_config.model_copy(update={"replay_path": str(run.folder), "protocol_label": None})
    assert len(data.load_for(config)[1]) == 4
    file = run.folder / "problems.jsonl"
    file.write_bytes(cut(file.read_bytes()))
    with pytest.raises(
        data.DataError, match=r"^replay_path: .*/problems.jsonl is damaged \(.*\): put it right"
    ) as said:
        data.load_for(config)
    assert "\n" not in str(said.value)


def test_an_edited_source_is_not_the_same_run(replay_config, stored):
    first = evaluate(replay_config)
    stored.write_text(stored.read_text().replace("#### 5", "#### 6"))
    again = evaluate(replay_config)
    assert again.run.folder != first.run.folder
    assert again.metrics["rules"]["strict"]["correct"] == first.metrics["rules"]["strict"]["correct"] - 1


def test_a_moved_source_and_data_file_are_the_same_run(replay_config, stored, data_file, tmp_path):
    first = evaluate(replay_config)
    for file in (stored, data_file):
        (tmp_path / "moved").mkdir(exist_ok=True)
        file.rename(tmp_path / "moved" / f"new-{file.name}")
    places = {"replay_path": "moved/new-samples.jsonl", "data_path": "moved/new-small.jsonl"}
    moved = replay_config.model_copy(update={name: str(tmp_path / path) for name, path in places.items()})
    again = evaluate(moved)
    assert again.run.folder == first.run.folder
    assert again.metrics["rules"] == first.metrics["rules"]


def test_a_source_without_any_of_the_problems_is_refused(replay_config, stored):
    stored.write_text(stored.read_text().replace('"test-', '"other-'))
    with pytest.raises(SamplerError, match="none of the problems"):
        evaluate(replay_config)


@pytest.mark.parametrize(
    ("field", "value"),
    [("text", 18), ("text", float("nan")), ("sample_index", "0"), ("completion_tokens", "many"), ("problem_id", ["a"])],
)
def test_a_field_of_the_wrong_kind_is_named(replay_config, stored, field, value):
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    rows[1][field] = value
    write_jsonl(stored, rows)
    with pytest.raises(SamplerError, match=f"samples.jsonl, line 2: field '{field}'"):
        open_sampler(replay_config)


def test_broken_store_is_named_by_line(replay_config, stored):
    stored.write_text(stored.read_text() + "{broken\n")
    with pytest.raises(SamplerError, match="samples.jsonl, line 5"):
        open_sampler(replay_config)


@pytest.mark.parametrize("ending", PACK)
def test_an_archive_made_to_fill_the_memory_is_refused(replay_config, tmp_path, monkeypatch, ending):
    packed = tmp_path / f"bomb.jsonl.{ending}"
    packed.write_bytes(PACK[ending](b"\n" * 15_000_000))
    monkeypatch.setattr(replay, "AND_BYTES", 200_000)
    tracemalloc.start()
    with pytest.raises(SamplerError, match="bomb.jsonl.* unpacks to more than .* bytes"):
        open_sampler(replay_config.model_copy(update={"replay_path": str(packed)}))
    assert tracemalloc.get_traced_memory()[1] < 12_000_000  # 15 MB were never held
    tracemalloc.stop()


def test_a_line_without_an_end_is_refused(replay_config, stored, monkeypatch):
    monkeypatch.setattr(replay, "LONGEST_LINE", 1000)
    stored.write_text(stored.read_text() + "{" + 2000 * " ")
    with pytest.raises(SamplerError, match="line 5: longer than 1,000 bytes"):
        open_sampler(replay_config)


@pytest.mark.parametrize("row", ["[" * 100_000, '{"a": ' * 100_000, "9" * 5000, '{"problem_id": ' + "[" * 100_000])
def test_a_row_nested_too_deep_is_named_by_line(replay_config, stored, row):
    stored.write_text(stored.read_text() + row + "\n")
    with pytest.raises(SamplerError, match="samples.jsonl, line 5: "):
        open_sampler(replay_config)


def test_a_zip_named_gz_is_named(replay_config, tmp_path):
    with zipfile.ZipFile(tmp_path / "samples.jsonl.gz", "w") as archive:
        archive.writestr("samples.jsonl", "{}")
    with pytest.raises(SamplerError, match="cannot be decompressed"):
        open_sampler(replay_config.model_copy(update={"replay_path": str(tmp_path / "samples.jsonl.gz")}))


def test_rows_that_a_later_one_replaces_are_counted(replay_config, stored):
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    write_jsonl(stored, [*rows, rows[0] | {"text": "later"}, rows[1] | {"text": None, "error": "failed"}])
    sampler = open_sampler(replay_config)
    assert sampler.samples["test-0000", 0].text == "later"
    assert sampler.samples["test-0001", 0].error is None  # a failure takes no answer's place
    assert sampler.describe()["repeated"] == 2 and sampler.describe()["stored"] == 4
