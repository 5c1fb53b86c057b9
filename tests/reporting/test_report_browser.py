"""The report and an exported notebook in a real Chromium: what models wrote stays text, the sample browser works."""

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from select import select

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter

from gsm8k_nb.__main__ import main
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting import page as report
from gsm8k_nb.reporting import printing, tables

from ..conftest import write_jsonl
from ..samplers.test_replay import evaluate
from ..test_summary import results_of

SILENCE_S = 120  # a busy machine needs seconds; a page that hangs must fail the test, not hold it
ACT = "window.acted = true; document.title = 'acted'"
HOSTILE = [
    f"<script>{ACT}</script></script><script>{ACT}</script> <!-- \u2028 </pre></details></table>",
    f'<img src=x onerror="{ACT}"><svg onload="{ACT}"><iframe srcdoc="<script>parent.acted = true</script>">',
    "[link](javascript:acted=1) ![i](http://example.org/i.png) $\\href{javascript:acted=1}{1}$ $$x^2$$ \\(y\\)",
    "\x1b[31mred\x1b[0m \x00 \x9b1m \ud83d \u202egnp.exe\u202c =HYPERLINK(1) {{ 7 * 7 }} | cell |",
]


class Tab:
    """One page of a headless Chromium, driven by the DevTools protocol over a pipe."""

    def __init__(self, profile: Path) -> None:
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        line = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", line, "bash", printing.printer(), *printing.headless(str(profile))]
        self.process = subprocess.Popen(
            [*command, "--remote-debugging-pipe", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read), os.close(to_write)
        self.numbers, self.unread, self.session = count(1), b"", None
        self.loaded = False
        self.console: list[str] = []  # the page's console: errors, breaches of its policy
        target = next(info for info in self.call("Target.getTargets")["targetInfos"] if info["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.next()).get("id") != number:
            self.note(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def next(self) -> dict:
        while b"\0" not in self.unread:
            assert select([self.into], [], [], SILENCE_S)[0], f"Chromium said nothing for {SILENCE_S} s"
            part = os.read(self.into, 1 << 20)
            assert part, "Chromium ended"
            self.unread += part
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def note(self, event: dict) -> None:
        self.loaded |= event.get("method") == "Page.loadEventFired"
        if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.console.append(json.dumps(event["params"]))

    def open(self, page: Path, state: str = "") -> None:
        for url in ("about:blank", page.resolve().as_uri() + state):  # so that another state loads the page anew
            self.loaded = False
            self.call("Page.navigate", url=url)
            while not self.loaded:
                self.note(self.next())

    def run(self, expression: str):
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self.session = None
            os.write(self.out, b'{"id": 0, "method": "Browser.close"}\0')
        self.process.wait(timeout=60)
        os.close(self.out), os.close(self.into)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    if printing.printer() is None:
        pytest.skip(f"no Chromium: none of {', '.join(printing.PRINTERS)} is on the PATH")
    tab = Tab(tmp_path_factory.mktemp("profile"))
    tab.call("Network.enable")
    tab.call("Network.setBlockedURLs", urls=["http://*", "https://*"])  # what an exported notebook asks for
    yield tab
    tab.close()


@pytest.fixture
def hostile(problems, tmp_path):
    """A run whose questions, gold solutions and completions are all hostile; flexible reads each, strict none."""
    bad = [
        Problem(problem.id, f"{text} {problem.question}", f"{text}\n{problem.solution}", problem.answer)
        for problem, text in zip(problems, HOSTILE, strict=True)
    ]
    texts = [[f"{text}\nThe answer is {problem.answer}."] for problem, text in zip(problems, HOSTILE, strict=True)]
    return results_of(bad, texts, tmp_path, rules="both", headline_rule="strict")


def plain(text: str) -> str:
    """As ``innerText`` gives it, blanks apart."""
    return " ".join(text.split())


SHOWN = [  # the hostile texts as a reader must see them: no character gone, none that acts
    plain(text.replace("\u2028", "[U+2028]").replace("\x1b", "␛").replace("\x00", "␀").replace("\x9b", "[U+009B]"))
    .replace("\ud83d", "[U+D83D]").replace("\u202e", "[U+202E]").replace("\u202c", "[U+202C]")
    for text in HOSTILE
]  # fmt: skip


def test_the_probe_sees_text_that_acts(tab, tmp_path):
    page = tmp_path / "raw.html"
    page.write_text(f"<title>quiet</title><p>{HOSTILE[0]}</p>", encoding="utf-8")
    tab.open(page)
    assert tab.run("[window.acted, document.title]") == [True, "acted"]


def test_hostile_text_in_the_report(tab, hostile):
    page = report.save(hostile)
    tab.console.clear()
    tab.open(page)
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.run("[window.acted ?? null, document.title]") == [None, hostile.headline]
    for selector, n in (("#browser .list", 4), ("main > details", 3)):  # each question, gold solution, completion
        seen = plain(tab.run(f"[...document.querySelectorAll('{selector}')].map((one) => one.innerText).join(' ')"))
        assert [seen.count(text) for text in SHOWN[:n]] == [3] * n
    assert tab.run("document.querySelectorAll('iframe, svg, a[href^=javascript]').length") == 0
    assert tab.run("document.scripts.length") == 2  # the data and the one that shows them
    assert tab.run("[...document.images].every((one) => one.src.startsWith('data:') && one.naturalWidth > 0)")
    assert tab.console == []  # no error, and nothing that the page's own policy had to stop


def test_the_report_runs_no_script_but_its_own(tab, hostile):
    page = report.save(hostile)
    page.write_text(page.read_text().replace("<header>", f'<header><script>{ACT}</script><img src=x onerror="{ACT}">'))
    tab.open(page)
    policy = tab.run("document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "style-src 'unsafe-inline'" in policy and policy.count("unsafe-inline") == 1
    assert tab.run("[window.acted ?? null, document.title]") == [None, hostile.headline]
    assert any("Content Security Policy" in message for message in tab.console)


def test_hostile_text_in_an_exported_notebook(tab, hostile, tmp_path):
    from nbconvert import HTMLExporter

    tables.show_in_full()
    texts_shown = [report.show_examples(hostile, correct=False, n=4), report.show_disagreements(hostile, n=4)]
    outputs = []
    for value in (*texts_shown, tables.disagreeing_samples(hostile)[:3], report.show_headline(hostile)):
        data, metadata = DisplayFormatter().format(value)
        assert not {"text/markdown", "text/latex", "application/javascript"} & set(data)
        outputs.append(nbformat.v4.new_output("display_data", data, metadata=metadata))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=outputs)])
    page = tmp_path / "book.html"
    page.write_text(HTMLExporter().from_notebook_node(book)[0], encoding="utf-8")
    tab.open(page)
    assert tab.run("[window.acted ?? null, document.title]") == [None, "Notebook"]
    seen = plain(tab.run("document.body.innerText").replace("\u2028", "[U+2028]"))  # as it is in a DataFrame
    assert [seen.count(text) for text in SHOWN] == [4 + (place < 3) for place in range(4)]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The report of four stored completions: right, right under flexible alone, cut by the token limit, empty."""
    folder = tmp_path_factory.mktemp("stored")
    golds = [
        "2 + 3 = <<2+3=5>>5\n#### 5",
        "4 * 6 = <<4*6=24>>24\n24 * 2 = <<24*2=48>>48\n#### 48",
        "a\n#### 3",
        "a\n#### 4",
    ]
    texts = ["2 + 3 = 5\n#### 5", "So the answer is 48.", "I do not know", ""]
    write_jsonl(folder / "p.jsonl", [{"question": f"Number {i}?", "answer": gold} for i, gold in enumerate(golds)])
    rows = [{"problem_id": f"test-{i:04d}", "sample_index": 0, "text": text} for i, text in enumerate(texts)]
    ends = [{"finish_reason": end} for end in ("stop", "stop", "length", "stop")]
    write_jsonl(folder / "s.jsonl", [row | end for row, end in zip(rows, ends, strict=True)])
    sources = {"data_path": str(folder / "p.jsonl"), "replay_path": str(folder / "s.jsonl")}
    protocol = {"prompt": "as_stored", "protocol_label": "a test, test@1", "rules": "all", "outputs_dir": str(folder)}
    config = RunConfig(model="stored", sampler="replay", **sources, **protocol)
    (folder / "params.yaml").write_text(json.dumps(config.model_dump(exclude_defaults=True)))  # JSON is YAML
    return report.save(evaluate(config))


COUNTS = {  # filters of the address, and what they find in that report, whose headline rule is flexible
    "#show=right": "2 samples of 2 problems",
    "#show=right&rule=strict": "1 sample of 1 problem",
    "#show=wrong,truncated": "1 sample of 1 problem",
    "#show=disagree": "2 samples of 2 problems",
    "#against=strict": "1 sample of 1 problem",
    "#show=unread": "2 samples of 2 problems",
    "#show=unread&rule=strict": "3 samples of 3 problems",
    "#show=failed": "0 samples of 0 problems",
    "#steps=2": "1 sample of 1 problem",
    "#text=THE+ANSWER": "1 sample of 1 problem",
    "#text=number+2": "1 sample of 1 problem",
    "#text=test-0001/0&show=wrong&rule=strict": "1 sample of 1 problem",
    "#steps=99&rule=none&page=7": "4 samples of 4 problems",
}


def test_filters_stand_in_the_address(tab, page):
    tab.open(page)
    assert tab.run(COUNT) == "4 samples of 4 problems"
    for state, expected in COUNTS.items():
        assert (state, tab.run(go_to(state))) == (state, expected)
    tab.open(page, "#show=right")
    assert tab.run(COUNT) == "2 samples of 2 problems"
    tab.run("document.forms[0].steps.value = '2'")
    tab.run("document.forms[0].steps.dispatchEvent(new Event('input', {bubbles: true}))")
    assert tab.run(f"new Promise((done) => setTimeout(() => done([{COUNT}, location.hash]), 50))") == [
        "1 sample of 1 problem",
        "#show=right&steps=2",
    ]


COUNT = "document.querySelector('.count').textContent"


def go_to(state: str) -> str:
    """A script that moves to another address of the same page and gives the count that is then shown."""
    listen = f"addEventListener('hashchange', () => done({COUNT}), {{once: true}})"
    return f"new Promise((done) => {{ {listen}; location.hash = {state!r}; }})"


def test_pages_turn(tab, problems, tmp_path):
    dozen = [replace(problems[place % 4], id=f"test-{place:04d}") for place in range(12)]
    results = results_of(dozen, [["#### 5"]] * 12, tmp_path, rules="both")
    tab.open(report.save(results), "#page=2")
    seen = "[document.querySelector('.place').textContent, document.querySelectorAll('article').length, location.hash]"
    assert tab.run(seen) == ["Page 2 of 2", 2, "#page=2"]
    assert tab.run("document.querySelector('[data-turn=\"1\"]').disabled")
    tab.run("document.querySelector('[data-turn=\"-1\"]').click()")
    assert tab.run(seen) == ["Page 1 of 2", 10, "#samples"]


def test_a_sample_shows_what_each_rule_read(tab, page):
    tab.open(page, "#text=test-0001/0")
    [first, *_] = tab.run("[...document.querySelectorAll('.readings li')].map((one) => one.textContent)")
    assert first.startswith("✗ wrong no number: strict")
    seen = tab.run("document.querySelector('article').innerText")
    assert "gold 48, 2 steps, 1 of 1 right" in seen and "4 * 6 = 24\n" in seen  # the step without its annotation


def test_a_failed_request_is_neither_right_nor_wrong(tab, problems, tmp_path):
    results = results_of(problems, [["#### 5", None]] + [["#### 1", "#### 2"]] * 3, tmp_path, rules="both")
    tab.open(report.save(results), "#show=failed")
    assert tab.run(COUNT) == "1 sample of 1 problem"
    assert "The request failed: timeout" in tab.run("document.querySelector('article').innerText")
    tab.run("document.querySelector('.others').open = true")
    tab.run("new Promise((done) => setTimeout(done, 50))")  # what a details element holds is made when it is opened
    assert "read 5" in tab.run("document.querySelector('.others').innerText")


def test_a_text_of_a_megabyte_is_cut_and_kept(tab, problems, tmp_path):
    long = "x" * 1_000_000 + " the end\n#### 5"
    results = results_of(problems, [[long], ["#### 1"], ["no"], [""]], tmp_path, rules="both")
    tab.open(report.save(results), "#text=test-0000/0")
    shown = "[...document.querySelectorAll('article pre')].map((one) => one.textContent.length)"
    assert tab.run(shown) == [3000, 1000]
    assert tab.run("document.querySelector('.all').textContent") == f"Show all {len(long):,} characters"
    tab.run("document.querySelector('.all').click(); document.body.offsetHeight")
    assert tab.run(shown) == [len(long)]
    static = "[...document.querySelectorAll('main > details pre')].map((one) => one.textContent).join('')"
    assert len(long) <= tab.run(f"({static}).length") < len(long) + 2000
    assert not tab.run("document.querySelector('main > details .rest').open")


def test_tables_sort_by_their_heads(tab, page):
    tab.open(page)
    head = "document.querySelector('[aria-label=\"Accuracy by steps\"] th')"
    body = f"[...{head}.closest('table').tBodies[0].rows].map((row) => row.cells[0].textContent)"
    orders = [["1", "2"], ["2", "1"], ["1", "2"]]
    for sort, order in zip(("ascending", "descending", None), orders, strict=True):
        tab.run(f"{head}.querySelector('button').click()")
        assert (tab.run(f"{head}.getAttribute('aria-sort')"), tab.run(body)) == (sort, order)
    field = "document.querySelector('.rowfilter input')"  # of the table of rules, which is long
    tab.run(f"{field}.value = 'lm_eval'; {field}.dispatchEvent(new Event('input'))")
    assert tab.run("document.querySelector('.rowfilter span').textContent") == "4 rows"


def test_without_javascript_all_but_the_browser_is_there(tab, page):
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(page)
        seen = tab.run("document.body.innerText")
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "The sample browser needs JavaScript" in seen and "0.5000" in seen and "Page 1" not in seen
    assert "The sample browser needs JavaScript" not in (tab.open(page) or tab.run("document.body.innerText"))


UNNAMED = """[...document.querySelectorAll('input, select, button')].filter(
  (one) => !one.labels?.length && !one.textContent.trim()).length"""
FAINT = """(() => {
  const light = (color) => color.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const ground = (one) => { const c = numbers(getComputedStyle(one).backgroundColor);
    return c[3] === 0 && one.parentElement ? ground(one.parentElement) : c[3] === 0 ? [255, 255, 255] : c; };
  const texts = [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && !one.disabled &&
    [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.filter((one) => { const [a, b] = [light(numbers(getComputedStyle(one).color)), light(ground(one))];
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5; }).map((one) => one.outerHTML.slice(0, 100)); })()"""


def test_the_report_can_be_used_by_all(tab, page):
    tab.open(page)
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    levels = tab.run("[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))
    assert tab.run("[...document.images].every((one) => one.alt)") and tab.run("document.images.length") == 3
    assert tab.run(UNNAMED) == 0
    assert tab.run("['header', 'nav', 'main', 'footer'].map((tag) => document.querySelectorAll(tag).length)") == [1] * 4
    assert tab.run("new Set([...document.querySelectorAll('[id]')].map((one) => one.id)).size") == tab.run(
        "document.querySelectorAll('[id]').length"
    )
    assert tab.run("[...document.querySelectorAll('nav a')].every((one) => document.querySelector(one.hash))")
    assert tab.run(FAINT) == []
    tab.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=2, mobile=True)
    try:
        assert tab.run("document.documentElement.scrollWidth") <= 390  # a phone scrolls down only
    finally:
        tab.call("Emulation.clearDeviceMetricsOverride")


def test_pdf_by_one_command(tab, page, capsys):
    parameters = next(page.parents[1].glob("params.yaml"))
    assert main(["report", str(parameters), "--pdf"]) == 0
    made = page.with_suffix(".pdf")
    assert made.read_bytes().startswith(b"%PDF") and "report.pdf" in capsys.readouterr().out
