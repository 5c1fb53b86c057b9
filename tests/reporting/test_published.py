import pandas as pd
import pytest

from gsm8k_nb.reporting import published

from ..conftest import SHARED


def run_metrics(prompt="wei_8shot", shots=8, temperature=0.0, n=1, top_k=None, complete=True, label=None) -> dict:
    """The parts of a ``metrics.json`` that a published row is compared with: 40% right, 37 to 43."""
    metric = "test@1" if temperature == 0 else f"avg@{n}, T={temperature:g}"
    protocol = {"metric": metric, "prompt": prompt, "shots": shots, "n_samples": n, "temperature": temperature}
    if label:
        protocol = {"metric": label, "prompt": None, "shots": None, "n_samples": n, "temperature": None}
    return {
        "dataset": {"complete": complete},
        "protocol": protocol | {"top_k": top_k, "headline_rule": "flexible"},
        "rules": {"flexible": {"accuracy": 0.4, "ci_low": 0.37, "ci_high": 0.43}},
        "maj_at_k": {str(n): 0.5} if n > 1 else {},
        "intervals_at_k": {"maj_at_k": {str(n): [0.45, 0.78]} if n > 1 else {}},
    }


def test_the_file_is_checked():
    rows = published.load()
    assert len(rows) == 325 and not rows.duplicated().any()
    for name in ("model", "organisation", "shots", "prompt", "metric", "n_samples", "accuracy", "source", "year"):
        assert (rows[name] != "").all(), name
    assert pd.to_numeric(rows["accuracy"]).between(0, 100).all()
    assert pd.to_numeric(rows["shots"]).between(0, 8).all() and pd.to_numeric(rows["year"]).between(2021, 2026).all()
    assert (rows["temperature"] == "").sum() == 242
    many = rows["metric"].str.extract(r"^maj@(\d+)$")[0].dropna()
    assert (many == rows.loc[many.index, "n_samples"]).all()
    assert set(rows["temperature"]) == {"", "0", "0.5", "0.7"} and set(rows["top_k"]) == {"", "40", "none"}


def test_every_row_is_one_of_those_collected():
    file = SHARED / "published_results.csv"
    if not file.exists():
        pytest.skip("the collected results are not beside the checkout (../shared/published_results.csv)")
    collected = pd.read_csv(file, dtype=str, keep_default_na=False)
    same = ["organisation", "shots", "prompt", "n_samples", "accuracy", "source", "year"]
    rows = published.load()
    known = {tuple(row) for row in collected[same].itertuples(index=False)}
    assert all(tuple(row) in known for row in rows[same].itertuples(index=False))
    without = (collected["shots"] == "") | (collected["n_samples"] == "")
    assert (len(collected), int(without.sum()), len(collected) - len(rows)) == (431, 92, 106)


def test_a_run_beside_its_own_protocol():
    table = published.beside(run_metrics(), "some/Model")
    assert len(table) and set(table["metric"]) == {"test@1"}
    verdicts = table.set_index(["model", "published %"])["verdict"]
    assert verdicts["PaLM 540B", "56.9"] == "outside the interval, above"
    assert verdicts["PaLM 62B", "29.9"] == "outside the interval, below"
    assert (table["same model"] == "").all()
    assert not table["prompt"].str.contains("no CoT|calculator|PAL", regex=True).any()  # other protocols
    accuracies = pd.to_numeric(table["published %"]).tolist()
    assert accuracies not in (sorted(accuracies), sorted(accuracies, reverse=True))  # a list, no ranking


def test_what_is_not_stated_is_not_judged():
    table = published.beside(run_metrics(), "meta-llama/Llama-3.1-8B-Instruct")
    own = table[table["same model"] == "yes"]
    assert len(own) == 4 and own.index.tolist() == [0, 1, 2, 3]  # the run's own model comes first
    assert own["verdict"].str.startswith("protocol not stated (").all()
    assert "temperature" in own["verdict"].iloc[0]
    others = table[table["same model"] == ""]
    assert others["verdict"].str.contains("inside|outside").all()  # of other models only what can be judged


@pytest.mark.parametrize(
    "metrics",
    [
        run_metrics(complete=False),
        run_metrics(shots=3),
        run_metrics(temperature=0.7),
        run_metrics(prompt="train_kshot"),
    ],
    ids=["incomplete", "shots", "temperature", "exemplars"],
)
def test_nothing_across_protocols(metrics):
    assert published.beside(metrics, "UL2 20B").empty


def test_votes_are_beside_votes_of_as_many_at_that_temperature():
    table = published.beside(run_metrics(temperature=0.7, n=40, top_k=40), "PaLM-540B")
    assert table[["model", "metric", "published %", "this run %"]].values.tolist() == [
        ["PaLM 540B", "maj@40", "74.4", "50.00"]
    ]
    assert table["verdict"].item() == "inside the interval"
    assert "GPT-3 (code-davinci-001)" in set(published.beside(run_metrics(temperature=0.7, n=40), "x")["model"])
    assert published.beside(run_metrics(temperature=0.7, n=8), "x").empty


def test_a_label_is_a_protocol():
    table = published.beside(run_metrics(label="fine-tuned, test@1"), "GPT-3 6B fine-tuned")
    assert table["published %"].tolist() == ["20.6", "21.68", "34.72"]
    assert table["same model"].tolist() == ["yes", "yes", ""]
    assert published.beside(run_metrics(label="a test, test@1"), "GPT-3 6B fine-tuned").empty


def test_metrics_of_a_finished_run_fit(replay_config):
    from ..samplers.test_replay import evaluate

    metrics = evaluate(replay_config).metrics.model_dump()
    assert published.beside(metrics, "stored").empty
    metrics["dataset"]["complete"] = True
    assert published.beside(metrics, "stored").empty


@pytest.mark.parametrize(("label", "n"), [("test@1", 1), ("maj@40", 40), ("maj@100", 100)])
def test_a_label_that_many_protocols_share_judges_nothing(label, n):
    metrics = run_metrics(label=label, n=n)
    assert published.beside(metrics, "some/Model").empty
    rows = published.load()
    model = rows[rows["metric"] == label]["model"].iloc[0]
    table = published.beside(metrics, model)
    assert len(table) and table["verdict"].str.startswith("protocol not stated").all()
