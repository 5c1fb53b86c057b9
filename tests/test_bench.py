"""The bench counts right: plan, rates, ratios, the least time of the roofline; and one measurement end to end."""

import json

import pytest

from bench import __main__ as bench
from bench import agreement, house, plan, roofline, systems, writing
from bench.plan import Piece
from gsm8k_nb.records import Sample, Score


def record(seconds: float, ids: list[list[list[int]]], **more) -> dict:
    facts = {"seconds": seconds, "cpu_seconds": 1.5 * seconds, "peak_mb": 100.0, "ids": ids, "threads": 2}
    return facts | {"date": "2026-01-01", "prefix": 10, "questions": [3] * len(ids)} | more


def one_each(n: int, last: int = 3) -> list[list[list[int]]]:
    return [[[1, 2, last]] for _ in range(n)]


OURS = Piece(plan.OURS, plan.BF16, 4, 64)
SLOW, FAST = Piece(plan.LM_EVAL, plan.BF16, 4, 16), Piece(plan.LM_EVAL, plan.BF16, 4, 32)
OURS_8, THEIRS_8 = Piece(plan.OURS, plan.BF16, 4, 64, 8), Piece(plan.LM_EVAL, plan.BF16, 2, 16, 8)
FOUND = {
    OURS: record(2.0, one_each(4)),
    SLOW: record(30.0, one_each(4)),
    FAST: record(20.0, one_each(3) + one_each(1, last=4)),
    OURS_8: record(4.0, [[[1]] * 8] * 4),  # 8 completions a second
    THEIRS_8: record(40.0, [[[1]] * 8] * 2),  # 0.4
}


# --- the plan ---


def test_every_measurement_has_a_name_of_its_own():
    names = [piece.name for quick in (False, True) for piece in plan.pieces(quick)]
    assert len(plan.pieces()) == len({piece.name for piece in plan.pieces()})
    assert names[0] == "ours-bfloat16-64x1-8shot-batch64"
    assert not set(names) & set(house.NAMES)


def test_the_plan_has_what_the_ratios_compare():
    pieces = set(plan.pieces())
    for _, _, dtype, system, dtypes, n_samples in writing.TARGETS:
        theirs = [p for p in pieces if p.system == system and p.dtype in dtypes and p.n_samples == n_samples]
        ours = [p for p in pieces if (p.system, p.dtype) == (plan.OURS, dtype)]
        assert any(writing.comparable(a, b) for a in ours for b in theirs), (system, dtypes, n_samples)


# --- quantities and tables ---


def test_rates_count_completions_and_tokens():
    assert writing.rate(FOUND[OURS]) == 2.0 and writing.tokens(FOUND[OURS]) == 12
    assert writing.busy(FOUND[OURS]) == 1.5
    assert writing.fastest(FOUND, plan.LM_EVAL, (plan.BF16,), 1) is FAST
    assert writing.fastest(FOUND, plan.VLLM, (plan.BF16,), 1) is None


def test_ratios_take_the_peers_best_setting():
    lines = {line.split(" | ")[0].strip("| "): line for line in writing.ratios(FOUND).splitlines()}
    assert "| 6 | 10.00 | bfloat16, batch 32 | 100 / 100 |" in lines["lm-eval at its best dtype"]
    assert "| 12 | 20.00 |" in lines["lm-eval, both bfloat16, N = 8"]
    assert "not run" in lines["vLLM's CPU build"] and "not run" in lines["lm-eval, both float32"]


def test_agreement_counts_equal_texts_and_the_tokens_before_they_part():
    assert writing.alike(FOUND[OURS], FOUND[FAST]) == (3, 11 / 12)
    assert writing.alike(record(1, [[[1, 2]]]), record(1, [[[1, 2, 3, 4]]])) == (0, 0.5)
    assert "| 3 of 4 | 91.7% |" in writing.agreement(FOUND)


def test_results_name_what_was_not_run(tmp_path):
    records = {piece.name: record | {"versions": {"torch": "9"}} for piece, record in FOUND.items()}
    pieces = [*FOUND, Piece(plan.VLLM, plan.BF16, 4, 4)]
    text = writing.write(records, tmp_path, pieces).read_text()
    assert "Planned and not run (number of measurements): vLLM's CPU build, server, bfloat16 (1)." in text
    assert "torch 9" in text and "### Completions a second by batch size" in text
    assert {file.name for file in tmp_path.iterdir()} == {"results.md", "results.json", "speed.png", "scaling.png"}
    assert "ids" not in json.loads((tmp_path / "results.json").read_text())[OURS.name]


def test_results_of_a_server_alone_have_nothing_that_scales(tmp_path):
    piece = Piece(plan.LLAMA, plan.Q4, 4, 8)
    assert "## Scaling" not in writing.write({piece.name: record(2.0, one_each(4))}, tmp_path, [piece]).read_text()
    assert (tmp_path / "speed.png").exists() and not (tmp_path / "scaling.png").exists()


# --- the roofline ---


def test_rows_that_end_give_their_place_to_waiting_ones():
    assert roofline.live_rows([3, 1], batch=8) == [2, 1, 1]
    assert roofline.live_rows([3, 1, 2], batch=2) == [2, 2, 2]
    assert roofline.live_rows([], batch=2) == []


@pytest.mark.parametrize(("machine", "seconds"), [
    # 20 shared or question tokens of 100 weights: 4000 operations, attention beside; then 5 steps read 220 bytes each
    ({"gflops": {"bfloat16": 1e3}, "read_gb_s": 1e-9 * 220}, 5.0),
    ({"gflops": {"bfloat16": 1e-9}, "read_gb_s": 1e3}, 2 * 20 * 100 + 5 * 2 * 110 + 4 * (200 + 5 * 22.5)),
])  # fmt: skip
def test_least_time_is_bounded_by_memory_or_by_arithmetic(machine, seconds):
    model = roofline.Model(layers=1, heads=1, head_dim=1, layer_weights=100, head_weights=10)
    found = roofline.least_seconds(model, 10, [10], [[5]], 1, "bfloat16", machine)
    assert found == pytest.approx(seconds, rel=1e-6)


# --- running ---


def test_a_peer_is_found_by_its_variable(monkeypatch, tmp_path):
    binary = tmp_path / "vllm"
    binary.write_text("#!/bin/sh\n")
    monkeypatch.delenv("VLLM", raising=False)
    assert systems.location(plan.VLLM) is None
    monkeypatch.setenv("VLLM", str(binary))
    assert systems.location(plan.VLLM) is None  # not executable
    binary.chmod(0o755)
    assert systems.location(plan.VLLM) == str(binary)


def test_a_failed_measurement_has_the_end_of_its_output():
    command = [systems.sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with pytest.raises(RuntimeError, match="code 1:\nno such model"):
        systems.timed(command)


def test_agreement_of_servers_counts_verdicts_texts_and_tokens():
    def answers(*rows):
        return {
            key: (Sample(key, 0, text, "stop"), Score(key, 0, "flexible", predicted, correct))
            for key, text, predicted, correct in rows
        }

    ours = answers(("test-0001", "a b c d", 1, True), ("test-0002", "a b", 2, False))
    theirs = answers(("test-0001", "a b c d", 1, True), ("test-0002", "a c", 3, True))
    cells, apart = agreement.compared(ours, theirs, lambda text: type("Ids", (), {"input_ids": text.split()}))
    assert cells == [2, 1, 1, 1, "83.3%"]
    assert apart == ["test-0002: ours 2, theirs 3"]


def test_one_measurement_end_to_end(official, tmp_path, monkeypatch, capsys):
    """SmolLM2 on two problems in a process of its own, and the tables made of it."""
    monkeypatch.setattr(bench, "STORED", tmp_path / "bench")
    assert bench.main(["--quick", "--only", "ours-bfloat16-2x1", "--data", str(official)]) == 0
    [file] = (tmp_path / "bench-quick").glob("*.json")
    found = json.loads(file.read_text())
    assert found["piece"]["problems"] == len(found["ids"]) == 2 and found["prefix"] > 700
    assert all(0 < len(ids) <= bench.MAX_NEW_TOKENS for [ids] in found["ids"])
    assert "results.md" in capsys.readouterr().out
