"""The trial of the engine is made once for an architecture and a machine."""

import pytest

torch = pytest.importorskip("torch", reason="the transformers extra is not installed")

from gsm8k_nb.samplers import fit as fits  # noqa: E402

from .test_engine import build  # noqa: E402


@pytest.fixture(autouse=True)
def trials(tmp_path, monkeypatch):
    """A cache of its own; returns the lengths that were tried."""
    monkeypatch.setenv("GSM8K_NB_CACHE", str(tmp_path))
    lengths, supports = [], fits.engine.supports
    monkeypatch.setattr(
        fits.engine, "supports", lambda model, length: lengths.append(length) or supports(model, length=length)
    )
    return lengths


def test_what_fits_is_remembered_and_a_copy_elsewhere_is_known(trials):
    model = build("llama")
    first = fits.fit(model, 40)
    assert first[0] is None and fits.fit(model, 40) == first
    again = build("llama")
    again.config._name_or_path = "elsewhere"
    assert fits.fit(again, 40) == first and trials == [40]


@pytest.mark.parametrize("changed", ["length", "model", "dtype", "threads", "versions"])
def test_anything_that_may_change_it_is_a_new_trial(trials, changed, monkeypatch):
    model, length, threads = build("llama"), 40, torch.get_num_threads()
    fits.fit(model, length)
    if changed == "length":
        length = 41
    elif changed == "model":
        model = build("qwen2")
    elif changed == "dtype":
        model = model.to(torch.bfloat16)
    elif changed == "threads":
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    else:
        monkeypatch.setattr(fits.transformers, "__version__", "99")
    fits.fit(model, length)
    assert trials == [40, length]


def test_what_does_not_fit_is_tried_again(trials):
    model = build("llama").train()
    assert "training" in fits.fit(model, 40)[0] and fits.fit(model, 40)[1] is False
    assert trials == [40, 40]
    assert fits.fit(model.eval(), 40)[0] is None
