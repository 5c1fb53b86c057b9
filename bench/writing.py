"""Tables and figures from stored measurements: results.md, speed.png, scaling.png, results.json (all but the texts).

A record is one measurement as ``__main__`` stores it, by its name:

    {"ours-bfloat16-64x1-8shot-batch64": {"seconds": 16.2, "cpu_seconds": 31.9, "peak_mb": 1290.0, "prefix": 730,
     "questions": [61, ...], "ids": [[[338, 4901, ...]], ...], "piece": {"system": "ours", ...}, "date": "2026-..."}}
"""

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench import house, plan, roofline, systems
from bench.plan import Piece
from gsm8k_nb.samplers.loading import converted_gguf

Record = dict[str, Any]
Records = dict[str, Record]
Row = Sequence[object]
# What is to be reached: (text, least ratio, our dtype, the other system, its dtypes, samples a problem)
TARGETS = (
    ("lm-eval at its best dtype", 6.0, plan.BF16, plan.LM_EVAL, (plan.BF16, plan.F32), 1),
    ("lm-eval, both float32", 4.0, plan.F32, plan.LM_EVAL, (plan.F32,), 1),
    ("lm-eval, both bfloat16", 4.0, plan.BF16, plan.LM_EVAL, (plan.BF16,), 1),
    ("vLLM's CPU build", 1.2, plan.BF16, plan.VLLM, (plan.BF16,), 1),
    ("llama.cpp's server", 1.2, plan.BF16, plan.LLAMA, (plan.Q4,), 1),
    ("lm-eval, both bfloat16, N = 8", 12.0, plan.BF16, plan.LM_EVAL, (plan.BF16,), 8),
)


def write(records: Records, folder: Path, pieces: list[Piece]) -> Path:
    """All results into a folder; the path of the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {piece: records[piece.name] for piece in pieces if piece.name in records}
    small = {name: {k: v for k, v in one.items() if k not in ("texts", "ids")} for name, one in records.items()}
    (folder / "results.json").write_text(json.dumps(small, indent=1), encoding="utf-8")
    sections = [head(records, pieces), speed(found), ratios(found), scaling(found), agreement(found)]
    sections += [share_of_roofline(found, records), overheads(records)]
    (folder / "results.md").write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")
    if found:
        speed_figure(found).savefig(folder / "speed.png", dpi=150)
    if curves(found):
        scaling_figure(found).savefig(folder / "scaling.png", dpi=150)
    return folder / "results.md"


# --- quantities ---


def rate(record: Record) -> float:
    """Completions a second, the model being loaded."""
    return sum(map(len, record["ids"])) / record["seconds"]


def tokens(record: Record) -> int:
    return sum(len(ids) for samples in record["ids"] for ids in samples)


def busy(record: Record) -> float:
    """Cores that were at work, on average: fewer than there are means idle threads or other load."""
    return record["cpu_seconds"] / record["seconds"]


def main_problems(found: dict[Piece, Record]) -> int:
    return max((piece.problems for piece in found), default=0)


def fastest(found: dict[Piece, Record], system: str, dtypes: Iterable[str], n_samples: int) -> Piece | None:
    """The best of a system's batch sizes and dtypes on the main comparison's problems, or on those of N samples."""
    same = [p for p in found if (p.system, p.n_samples, p.shots) == (system, n_samples, plan.SHOTS)]
    n = max((piece.problems for piece in same), default=0)
    fitting = [piece for piece in same if piece.dtype in dtypes and piece.problems == n]
    return max(fitting, key=lambda piece: rate(found[piece]), default=None)


def alike(a: Record, b: Record) -> tuple[int, float]:
    """Equal completions, and the share of tokens that stand before the first difference."""
    equal, before, total = 0, 0, 0
    for x, y in zip(a["ids"], b["ids"], strict=True):
        equal += x[0] == y[0]
        before += len(os.path.commonprefix([x[0], y[0]]))
        total += max(len(x[0]), len(y[0]))
    return equal, before / max(total, 1)


# --- tables ---


def table(names: Iterable[str], rows: Iterable[Row]) -> str:
    names = list(names)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def head(records: Records, pieces: list[Piece]) -> str:
    dates = sorted(record["date"] for record in records.values())
    versions = sorted({f"{k} {v}" for r in records.values() for k, v in r.get("versions", {}).items()})
    missing = Counter(f"{systems.NAMES[piece.system]}, {piece.dtype}" for piece in pieces if piece.name not in records)
    return HEAD.format(
        machine=f"{processor()}, {max(record['threads'] for record in records.values())} threads, no GPU",
        dates=f"{dates[0]} to {dates[-1]}",
        versions=", ".join(versions),
        missing="; ".join(f"{name} ({count})" for name, count in missing.items()) or "nothing",
    )


HEAD = """# Measurements

{machine}; {dates} (UTC).

SmolLM2-135M-Instruct; the first problems of GSM8K's test split after the exemplars of Wei et al. as plain text; at
most 128 new tokens, ended by the same stop string; greedy, or temperature 0.7 where there are several samples a
problem. Each line is one process. Loading a model and a server's start are not counted. gsm8k_nb and the servers answer
16 other problems before the clock starts: so compilation, the reading of the exemplars, which they keep, and our check
that the engine fits the model are not counted either (lm-eval and `generate` keep nothing between calls). Tokens are
counted by one tokenizer for all. Where fewer cores were busy than there are, threads waited or other programs ran.

Versions: {versions}.

Planned and not run (number of measurements): {missing}."""


def processor() -> str:
    """The processor's name as Linux has it, else as Python does."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def speed(found: dict[Piece, Record]) -> str:
    """The main comparison, and all that was measured on the same problems."""
    n = main_problems(found)
    same = sorted(
        (p for p in found if (p.problems, p.n_samples, p.shots) == (n, 1, plan.SHOTS)), key=lambda p: -rate(found[p])
    )
    rows = table(COLUMNS, (speed_row(piece, found[piece]) for piece in same))
    return f"## {n} problems\n\n![](speed.png)\n\n{rows}"


COLUMNS = ("system", "dtype", "batch", "s a completion", "completions/s", "tokens/s", "peak MB", "cores busy")


def speed_row(piece: Piece, record: Record) -> Row:
    return (
        systems.NAMES[piece.system], piece.dtype, piece.batch_size, f"{1 / rate(record):.3f}", f"{rate(record):.2f}",
        f"{tokens(record) / record['seconds']:.0f}", f"{record['peak_mb']:.0f}", f"{busy(record):.2f}",
    )  # fmt: skip


def ratios(found: dict[Piece, Record]) -> str:
    rows = []
    for text, least, dtype, system, dtypes, n_samples in TARGETS:
        theirs = fastest(found, system, dtypes, n_samples)
        own = [p for p in found if theirs and (p.system, p.dtype) == (plan.OURS, dtype) and comparable(p, theirs)]
        if not own:
            rows.append((text, f"{least:g}", "not run", "", ""))
            continue
        ours = max(own, key=lambda piece: rate(found[piece]))
        ratio = rate(found[ours]) / rate(found[theirs])
        setting = f"{theirs.dtype}, batch {theirs.batch_size}"
        memory = f"{found[ours]['peak_mb']:.0f} / {found[theirs]['peak_mb']:.0f}"
        rows.append((text, f"{least:g}", f"{ratio:.2f}", setting, memory))
    names = ("how many times as fast as", "aimed at", "reached", "its setting", "peak MB, ours / theirs")
    note = (
        "With 8 samples a problem ours wrote those of 64 problems, lm-eval of 8, as each of its samples costs the same."
    )
    return f"## Ratios of completions a second\n\n{note}\n\n" + table(names, rows)


def comparable(a: Piece, b: Piece) -> bool:
    """The same problems; of several samples a problem lm-eval writes fewer, as each costs it the same work."""
    same = (a.n_samples, a.shots) == (b.n_samples, b.shots)
    return same and (a.problems == b.problems or a.problems > b.problems and a.n_samples > 1)


def curves(found: dict[Piece, Record]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """What is varied -> a system and dtype -> (value, completions a second) in order."""
    n, few = main_problems(found), min((p.problems for p in found if p.n_samples > 1), default=0)
    kept = {
        "batch size": [(p, p.batch_size) for p in found if (p.problems, p.n_samples, p.shots) == (n, 1, plan.SHOTS)],
        "samples a problem": [(p, p.n_samples) for p in found if p.problems == few],
        "exemplars in the prompt": [(p, p.shots) for p in found if p.problems == plan.shots_problems(n)],
    }
    result: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for varied, points in kept.items():
        for piece, value in points:
            if piece.system in (plan.OURS, plan.ANY_BATCH, plan.LM_EVAL):
                line = result.setdefault(varied, {}).setdefault(f"{systems.NAMES[piece.system]}, {piece.dtype}", [])
                line.append((value, rate(found[piece])))
    return {varied: {name: sorted(line) for name, line in lines.items()} for varied, lines in result.items()}


def scaling(found: dict[Piece, Record]) -> str:
    parts = []
    for varied, lines in curves(found).items():
        values = sorted({value for line in lines.values() for value, _ in line})
        rows = [
            [name, *(f"{dict(line)[v]:.2f}" if v in dict(line) else "" for v in values)] for name, line in lines.items()
        ]
        parts.append(f"### Completions a second by {varied}\n\n" + table([varied, *values], rows))
    return "## Scaling\n\n" + "\n\n".join(parts) + "\n\n![](scaling.png)" if parts else ""


def agreement(found: dict[Piece, Record]) -> str:
    """Pairs of systems with the same dtype on the main problems, each in its fastest setting, greedy."""
    n, rows = main_problems(found), []
    for dtype in (plan.F32, plan.BF16):
        best = [p for system in systems.NAMES if (p := fastest(found, system, (dtype,), 1)) and p.problems == n]
        for a, b in combinations(best, 2):
            equal, share = alike(found[a], found[b])
            rows.append((dtype, systems.NAMES[a.system], systems.NAMES[b.system], f"{equal} of {n}", f"{share:.1%}"))
    note = "Greedy texts of the same dtype differ where two tokens are nearly as likely and the order of sums differs."
    names = ("dtype", "one", "other", "equal completions", "tokens before the first difference")
    return f"## Agreement\n\n{note}\n\n" + table(names, rows) if rows else ""


def share_of_roofline(found: dict[Piece, Record], records: Records) -> str:
    """How near our runs come to the least time that the texts need on this machine."""
    if "roofline" not in records or not found:
        return ""
    machine, rows = records["roofline"]["machine"], []
    model = roofline.Model.of(str(converted_gguf(plan.model_file())))
    for piece, record in found.items():
        if piece.system == plan.OURS and piece.dtype in roofline.BYTES:
            written = [[len(ids) + 1 for ids in samples] for samples in record["ids"]]
            sizes = (record["prefix"], record["questions"], written, piece.batch_size, piece.dtype)
            least = roofline.least_seconds(model, *sizes, machine)
            rows.append((piece.name, f"{record['seconds']:.1f}", f"{least:.1f}", f"{least / record['seconds']:.0%}"))
    peaks = ", ".join(f"{value:.0f} GFLOP/s in {dtype}" for dtype, value in machine["gflops"].items())
    note = f"Measured: {machine['read_gb_s']:.0f} GB/s read from memory, {peaks}. See `roofline.py` for the least time."
    return f"## Roofline\n\n{note}\n\n" + table(("our run", "seconds", "least", "share reached"), rows)


def overheads(records: Records) -> str:
    """Everything that is not a model's work, with the tables that the other scripts print."""
    names = [name for name in house.NAMES if name in records and name != "roofline"]
    rows = [
        (house.NAMES[name], f"{records[name]['seconds']:.1f}", f"{records[name]['cpu_seconds']:.1f}") for name in names
    ]
    printed = [records[name]["output"].strip() for name in ("scoring", "statistics") if name in names]
    text = "## Everything else\n\n" + table(("what, as a process of its own", "seconds", "CPU seconds"), rows)
    return "\n\n".join([text, *printed]) if rows else ""


# --- figures ---


def speed_figure(found: dict[Piece, Record]) -> Figure:
    """Completions a second of each system and dtype in its fastest setting."""
    best = [fastest(found, system, (dtype,), 1) for system in systems.NAMES for dtype in (plan.BF16, plan.F32, plan.Q4)]
    kept = sorted((piece for piece in best if piece), key=lambda piece: rate(found[piece]))
    figure = Figure(figsize=(7, 0.4 * len(kept) + 1), layout="constrained")
    axes = figure.subplots()
    names = [f"{systems.NAMES[piece.system].replace('`', '')}, {piece.dtype}" for piece in kept]
    colors = ["C0" if piece.system == plan.OURS else "0.6" for piece in kept]
    bars = axes.barh(names, [rate(found[piece]) for piece in kept], color=colors)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.set_xlabel(f"completions a second ({main_problems(found)} problems, 8 exemplars)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1)
    return figure


def scaling_figure(found: dict[Piece, Record]) -> Figure:
    """A panel for each thing varied; a system keeps its colour, a dtype its line."""
    panels = curves(found)
    figure = Figure(figsize=(3.6 * len(panels), 3.6), layout="constrained")
    labels = {}
    for axes, (varied, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for name, line in lines.items():
            color = "C0" if name.startswith(systems.NAMES[plan.OURS]) else "0.5"
            style = "-" if name.endswith(plan.BF16) else "--"
            [labels[name]] = axes.plot(*zip(*line, strict=True), marker="o", color=color, linestyle=style)
        axes.set(xlabel=varied, ylim=(0, None))
        if varied != "exemplars in the prompt":
            axes.set_xscale("log", base=2)
        axes.set_xticks(values := sorted({value for line in lines.values() for value, _ in line}), labels=values)
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("completions a second")
    figure.legend(labels.values(), labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure
