import doctest
import json
import re

import pytest
from matplotlib.figure import Figure

from gsm8k_nb import texts
from gsm8k_nb.__main__ import main
from gsm8k_nb.config import RunConfig
from gsm8k_nb.reporting import browser, figures, html, or_failure, printing, tables
from gsm8k_nb.reporting import page as report
from gsm8k_nb.scoring import steps

from ..samplers.test_replay import evaluate
from ..test_summary import results_of

HOSTILE = [
    "<script>alert(1)</script><!-- \x1b[31mred\x1b[0m \x00 \x07 \ud800 \u202egnp",
    '<img src=x onerror="alert(1)">',
    "$\\frac{1}{2}$ and **bold** [link](http://example.org)",
    "| a | table |",
]


@pytest.fixture
def hostile(problems, tmp_path):
    return results_of(problems, [[text] for text in HOSTILE], tmp_path)


def test_everything_is_written(replay_config):
    results = evaluate(replay_config)
    page = report.save(results)
    folder = results.run.folder
    names = {file.name for file in (folder / "tables").iterdir()} | {
        file.name for file in (folder / "figures").iterdir()
    }
    for name in ("accuracy", "health", "by_steps", "rules_crossed"):
        assert {f"{name}.csv", f"{name}.tex"} <= names
    for name in ("accuracy_by_steps", "length_by_verdict"):
        assert {f"{name}.png", f"{name}.pdf"} <= names
    text = page.read_text()
    assert results.headline in text and "0.5000" in text
    assert not re.search(r"(src|href)=[\"'](?!data:|#)", text)  # nothing is fetched


def test_one_very_long_text_leaves_the_histogram_readable(problems, tmp_path):
    texts = [["x" * (50 + 10 * place)] * 50 for place in range(len(problems))]
    texts[0][0] = "x" * 100_000
    axes = figures.length_by_verdict(results_of(problems, texts, tmp_path)).axes[0]
    assert 100 < axes.get_xlim()[1] < 1000 and "longer ones in the last bar" in axes.get_xlabel()
    texts[0][0] = "x"
    axes = figures.length_by_verdict(results_of(problems, texts, tmp_path / "other")).axes[0]
    assert axes.get_xlabel() == "length of the completion, characters"


def test_the_same_results_give_the_same_files(replay_config):
    results = evaluate(replay_config)
    report.save(results)
    before = {file: file.read_bytes() for file in results.run.folder.rglob("*.*") if file.is_file()}
    report.save(results)
    assert all(file.read_bytes() == raw for file, raw in before.items())


def test_texts_are_shown_as_their_examples_say():
    tested = doctest.testmod(texts)
    assert tested.attempted >= 2 and not tested.failed


def test_model_text_is_text(hostile):
    page = report.save(hostile).read_text()
    shown = report.show_examples(hostile, correct=False, n=4).data
    for markup in (page, shown):
        assert "<script>alert" not in markup and "<img src=x" not in markup and "<!--" not in markup
        assert "&lt;script&gt;alert(1)" in markup
        assert "\x1b" not in markup and "\x00" not in markup and "␛[31mred" in markup
        assert "\u202e" not in markup and "[U+D800] [U+202E]gnp" in markup
    assert "$\\frac" not in shown  # MathJax finds no dollar to start from


def data_of(page: str) -> dict:
    """What a report holds for its browser, read as a browser reads it: up to the first end tag."""
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script', page, re.DOTALL)[1])


def test_the_browser_holds_every_sample(problems, tmp_path):  # shown in tests/test_report_browser.py
    texts = [["#### 5", "</script><b>5", None], ["It is 48."] * 3, ["#### 1", "", "no"], ["#### -1"] * 3]
    results = results_of(problems, texts, tmp_path)
    held = data_of(report.save(results).read_text())
    assert (held["samples"], held["left_out"], held["cut"], held["headline"]) == (12, 0, 0, "flexible")
    assert [[sample["text"] for sample in problem["samples"]] for problem in held["problems"]] == [
        [text or "" for text in row] for row in texts
    ]
    assert [len(shown["steps"]) for shown in held["problems"]] == [steps(problem) for problem in problems]
    assert held["problems"][0]["steps"] == ["She has 2 + 3 = 5 pens."] and held["problems"][2]["gold"] == "1200"
    strict, flexible = map(held["rules"].index, ("strict", "flexible"))
    second = held["problems"][1]["samples"][0]
    assert (second["read"][strict], second["read"][flexible]) == (None, "48")
    assert second["right"][strict] + second["right"][flexible] == "01"
    failed = held["problems"][0]["samples"][2]
    assert failed["error"] == "timeout" and set(failed["right"]) == {"-"}


def test_a_run_too_large_for_one_page_says_what_is_left_out(problems, tmp_path):
    long = "step " * 10_000 + "#### 5"
    results = results_of(problems, [[long, "#### 5", "#### 6"]] + [["#### 1"] * 3] * 3, tmp_path, rules="both")
    assert browser.browser_data(results)["cut"] == 0
    held = browser.browser_data(results, 25_000)
    assert (held["cut"], held["left_out"]) == (1, 0)
    text = held["problems"][0]["samples"][0]["text"]
    assert text.startswith("step ") and text.endswith("#### 5") and len(text) < 21_000
    assert "[30,006 characters are left out here: the whole text is in samples.jsonl]" in text
    held = browser.browser_data(results, 20_600)  # problems keep alike many: the last index goes first
    assert held["left_out"] > 0
    counts = [len(problem["samples"]) for problem in held["problems"]]
    assert counts == sorted(counts, reverse=True) and counts[0] - counts[-1] <= 1 and sum(counts) < 12
    shown, images = report.run_tables(results), dict.fromkeys(report.FIGURES | {"curves_over_k": ""}, ("", ""))
    page = report.render_html(results, shown, images, budget=20_600)
    assert f"{held['left_out']} of them are not in this file" in page and "1 long texts are without" in page


def test_the_label_is_the_title(problems, tmp_path):
    for label, title in ((None, "GSM8K report: M</h1>"), ("<b>SFT", "GSM8K report: &lt;b&gt;SFT</h1>")):
        results = results_of(problems, [["#### 5"]] * 4, tmp_path, model="org/M", label=label)
        assert title in report.save(results).read_text()


def test_long_texts_are_whole(problems, tmp_path):
    long = "step " * 400 + "the end"
    results = results_of(problems, [[long]] * 4, tmp_path)
    assert long in report.show_examples(results, correct=False).data
    assert long in report.save(results).read_text()
    folded = html.texts([("", "x" * 1_000_000)]).data
    assert folded.count("x") == 1_000_000 + folded.count("exp") and "The other 980,000 characters" in folded


def test_warnings_come_first(problems, tmp_path):
    results = results_of(problems, [["#### 5"], ["#### 48"], [""], ["no number"]], tmp_path)
    lines = "\n".join(tables.warnings(results))
    assert "empty: 1 samples (25.0%)" in lines
    assert "no answer read: 2 samples (50.0%)" in lines
    assert "do not quote it as a GSM8K result" in lines
    assert lines.split("\n")[0] in report.show_headline(results).data
    table = tables.health(results)
    assert table.loc["failed", "note"] == "" and "stop strings" in table.loc["empty", "note"]


def test_latex_is_escaped(replay_config):
    results = evaluate(replay_config)
    report.save(results)
    text = (results.run.folder / "tables" / "accuracy.tex").read_text()
    assert r"accuracy \%" in text and r"\toprule" in text


def test_figures_show_what_the_tables_say(replay_config):
    results = evaluate(replay_config)
    figure = figures.accuracy_by_steps(results)
    points = figure.axes[0].containers[0].lines[0].get_xydata()
    assert [tuple(point) for point in points] == [(1.0, 50.0), (2.0, 100.0), (3.0, 0.0)]
    assert "alt=" in report.show_figure(figure, "an <alt> text").data


def test_repeat_text_names_what_was_changed(replay_config):
    text = report.repeat_text(evaluate(replay_config))
    assert 'sampler: "replay"' in text and "temperature" not in text and "papermill" in text


def test_command_line_prints_headline_and_path(replay_config, tmp_path, capsys):
    results = evaluate(replay_config)
    report.save(results)
    file = tmp_path / "params.yaml"
    file.write_text("\n".join(report.repeat_text(results).split("\n\n")[0].split("\n")[1:]))
    for source in (file, results.run.folder):
        assert main(["report", str(source)]) == 0
        out = capsys.readouterr().out
        assert results.headline in out and "report.html" in out
    (results.run.folder / "report.html").unlink()
    assert main(["report", str(results.run.folder)]) == 1
    assert "has no report.html: the run has not finished" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1 and "has no metrics.json" in capsys.readouterr().err
    file.write_text("temprature: 0\nlimit: none of it")
    assert main(["report", str(file)]) == main(["report", str(tmp_path / "no.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["error", str(name)] for name in (file, file, tmp_path / "no.yaml")
    ]
    assert "temperature" in lines[1] and "No such file" in lines[2]
    for wrong in ([], ["--pdf"], [str(file), "--html"]):
        with pytest.raises(SystemExit):
            main(["report", *wrong])


def test_a_pdf_without_chromium_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(printing, "PRINTERS", ("no-such-browser",))
    with pytest.raises(printing.PrintError, match="apt install chromium"):
        printing.print_pdf(tmp_path / "report.html")


def test_rules_that_agree_everywhere_are_said_to(problems, tmp_path):
    results = results_of(problems, [["nothing to read"]] * 4, tmp_path)
    assert "strict and flexible agree on every completion" in report.show_disagreements(results).data
    assert report.save(results).exists()


def test_disagreements_are_counted_listed_and_shown(problems, tmp_path):
    results = results_of(problems, [["#### 5"], ["It is 48."], ["$1,200"], ["<b>-1</b>"]], tmp_path)
    counts = tables.disagreements(results)
    assert counts.loc["strict", "strict"] == 0
    assert counts.loc["strict", "flexible"] == counts.loc["flexible", "strict"] == 3
    shown = report.show_disagreements(results, n=3).data
    assert "3 completions: test-0001/0, test-0002/0, test-0003/0" in shown and "&lt;b&gt;" in shown
    samples = tables.disagreeing_samples(results)
    assert samples.loc[("test-0001", 0), "strict"] == "none (wrong)"
    assert samples.loc[("test-0001", 0), "flexible"] == "48 (right)"
    assert tables.by_rule(results).loc["flexible", "right"] == 4
    assert tables.accuracy(results).index.name == tables.by_rule(results).index.name == "rule"  # its header


def broken(results):
    """A maker of figures that fails only when its figure is drawn."""
    figure = Figure()
    figure.text(0.5, 0.5, "$\\no{such}$", parse_math=True)
    return figure


broken.__annotations__["return"] = Figure


def test_what_cannot_be_made_is_one_counted_failure_with_a_name(problems, tmp_path, monkeypatch):
    results = results_of(problems, [["#### 5"], ["#### 48"], ["#### 1"], ["no number"]], tmp_path)

    def fails(results):
        raise ZeroDivisionError("of <b> 0")

    monkeypatch.setattr(tables.summary, "by_steps", fails)
    monkeypatch.setattr(figures, "by_steps", fails)
    monkeypatch.setitem(report.FIGURES, "accuracy_by_rule", (or_failure(broken), "broken"))
    monkeypatch.setattr(tables, "verdict_by_rule", fails)
    results.run.write_json("manifest.json", {"status": "sampled"})
    page = report.save(results).read_text()
    manifest = results.run.read_json("manifest.json")
    assert manifest["status"] == "incomplete"
    names = [reason.partition(" ")[0] for reason in manifest["not_made"]]
    assert names == ["by_steps", "disagreements", "disagreeing_samples", "accuracy_by_steps", "broken"]
    assert "by_steps could not be made: ZeroDivisionError: of &lt;b&gt; 0" in page
    folder = results.run.folder
    assert (folder / "tables" / "accuracy.csv").exists() and (folder / "figures" / "length_by_verdict.pdf").exists()
    assert "could not be made" in (folder / "tables" / "by_steps.csv").read_text()
    assert "could not be made" in report.show_disagreements(results).data
    monkeypatch.undo()
    report.save(results)
    assert results.run.read_json("manifest.json")["not_made"] == []
    assert results.run.read_json("manifest.json")["status"] == "complete"


def test_no_text_of_a_figure_is_cut(problems, tmp_path):
    texts = [["x" * (50 + 10 * place)] * 50 for place in range(len(problems))]
    texts[0][0] = "x" * 100_000
    results = results_of(problems, texts, tmp_path, label="a system with quite a long name for a figure of one column")
    for figure, _ in report.run_figures(results).values():
        whole, (width, height) = figure.get_tightbbox(), figure.get_size_inches()  # with all text, in inches
        assert whole.x0 >= -0.02 and whole.y0 >= -0.02 and whole.x1 <= width + 0.02 and whole.y1 <= height + 0.02


def test_a_replay_of_rows_that_state_nothing_says_so(replay_config):
    results = evaluate(replay_config)
    health = tables.health(results)
    assert health.loc["not in the asked-for form", "note"] == "not recorded by the source"
    assert not any("answer form" in line for line in tables.warnings(results))
    assert "limit of their source" in health.loc["truncated", "note"]  # which no parameter here can raise
    assert "max_new_tokens" not in "".join(tables.warnings(results))
    assert results.metrics["health"]["no_marker"] is None
    shown = tables.parameters(results.config)
    assert set(shown.loc[["temperature", "max_new_tokens", "top_p", "chat_template"], "value"]) == {"its source's"}
    assert "0.0" not in report.show_parameters(results.config).data
    protocol = results.metrics["protocol"]
    assert {protocol[name] for name in ("temperature", "max_new_tokens", "prompt", "shots", "stop")} == {None}
    page = report.save(results).read_text()
    assert "<dt>Replayed</dt>" in page and "<dt>Sampled</dt>" not in page


def test_parameters_that_are_changed_come_first_and_the_rest_is_folded():
    shown = report.show_parameters(RunConfig(limit=7, prompt="wei_8shot")).data
    first, _, rest = shown.partition("<details")
    assert "limit" in first and "wei_8shot" in first and "temperature" not in first and first.count("<tr>") == 2
    assert "temperature" in rest and f"The other {len(RunConfig.model_fields) - 2} parameters" in rest
    assert "Every parameter has its default" in report.show_parameters(RunConfig()).data


def test_a_saved_report_is_linked_in_jupyter(tmp_path, monkeypatch):
    page = tmp_path / "outputs" / "a run" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text("<p>")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert "<a" not in report.show_saved(page).data and "../outputs/a run/report.html" in report.show_saved(page).data
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "notebooks" / "eval.ipynb"))
    shown = report.show_saved(page).data
    assert 'href="../outputs/a%20run/report.html"' in shown
    assert 'download="report.html" href="data:text/html;base64,PHA+"' in shown
    monkeypatch.setattr(report, "LARGEST_COPY", 2)
    assert "download" not in report.show_saved(page).data
