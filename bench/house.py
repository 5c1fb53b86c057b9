"""The time of what is not a model's work: importing, scoring, statistics, a report, and a whole notebook of replays.

``notebook`` and ``report`` make the same from 1319 stored completions, once by papermill with a kernel and once in one
Python process; each starts from an empty folder.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.systems import timed

ROOT = Path(__file__).resolve().parents[1]
REPLAY = str(ROOT / "params" / "cobbe-6b-finetuned.yaml")
NAMES = {
    "roofline": "bandwidth and peak of the machine",
    "import": "`import gsm8k_nb`",
    "import_all": "`import gsm8k_nb.reporting.page`: everything but engines",
    "report": "1319 stored completions to a finished report.html, in one process",
    "notebook": "the same through `eval.ipynb`, kernel and all figures included",
    "scoring": "`bench_scoring.py`",
    "statistics": "`bench_stats.py --only speed`",
}


def run(name: str, data: Path) -> dict[str, Any]:
    """One measurement, ``data`` being the folder of the official files, with what its command printed."""
    with tempfile.TemporaryDirectory() as fresh:
        found = timed(command(name, data, Path(fresh)), {"PYTHONPATH": str(ROOT)}, keep=True)
    if name == "roofline":
        found["machine"] = json.loads(found.pop("output"))
    return found


def command(name: str, data: Path, fresh: Path) -> list[str]:
    files = {"data_path": data / "test.jsonl", "replay_path": data / "example_model_solutions.jsonl"}
    values = files | {"outputs_dir": fresh}
    bench, notebook = ROOT / "bench", ROOT / "notebooks" / "eval.ipynb"
    papermill = ["-m", "papermill", str(notebook), str(fresh / "out.ipynb"), "-k", "python3", "--no-progress-bar"]
    arguments = {
        "roofline": ["-m", "bench.roofline"],
        "import": ["-c", "import gsm8k_nb"],
        "import_all": ["-c", "import gsm8k_nb.reporting.page"],
        "report": [str(bench / "workers" / "report.py"), REPLAY, *(f"{key}={value}" for key, value in values.items())],
        "notebook": [*papermill, "-f", REPLAY, *(x for key, value in values.items() for x in ("-p", key, str(value)))],
        "scoring": [str(bench / "bench_scoring.py"), str(data)],
        "statistics": [str(bench / "bench_stats.py"), "--only", "speed"],
    }
    return [sys.executable, *arguments[name]]
