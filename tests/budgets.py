"""The house's budgets, counted: ``python -m tests.budgets`` prints them and fails where one is broken.

A count may not grow past ``most``, which is lowered whenever something goes; ``goal`` is where it is to come.

The evaluation's road is what ``eval.ipynb`` loads when it samples with the transformers engine: its own imports and
whatever these import in turn, the other engines apart.
"""

import ast
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gsm8k_nb"
ENGINE = "gsm8k_nb.samplers.transformers"
OTHER_ENGINES = ("openai", "server", "wire", "refusals", "vllm", "ray", "replay")


@dataclass(frozen=True)
class Budget:
    what: str
    count: int
    most: int
    goal: int

    def __str__(self) -> str:
        goal = "" if self.count <= self.goal else f"   goal {self.goal:,}"
        over = "   <-- over" if self.count > self.most else ""
        return f"{self.what:<58}{self.count:>7,} of {self.most:>6,}{goal}{over}"


def budgets() -> list[Budget]:
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in sorted(PACKAGE.rglob("*.py"))}
    largest = max(lines, key=lambda file: lines[file])
    return [
        Budget("lines of Python in the package", sum(lines.values()), 12_185, 10_000),
        Budget("of these, on the evaluation's road", sum(lines[file] for file in road()), 7_445, 5_600),
        Budget(f"lines of the largest module, {largest.relative_to(PACKAGE)}", lines[largest], 350, 350),
        Budget("modules on the ground floor", len(list(PACKAGE.glob("*.py"))), 16, 16),
        Budget(f"public functions that nobody calls {', '.join(uncalled()[:5])}", len(uncalled()), 0, 0),
    ]


def road() -> list[Path]:
    """The files that an evaluation loads."""
    graph = grimp.build_graph("gsm8k_nb", exclude_type_checking_imports=True)
    left = _imported_by(PACKAGE.parent / "notebooks" / "eval.ipynb", graph.modules) | {ENGINE}
    apart = {f"gsm8k_nb.samplers.{name}" for name in OTHER_ENGINES}
    loaded: set[str] = set()
    while left:
        module = left.pop()
        loaded.add(module)
        parents = {module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1)}
        left |= (graph.find_modules_directly_imported_by(module) | parents) - loaded - apart
    return [_file(module) for module in loaded if _file(module).exists()]


def _file(module: str) -> Path:
    place = PACKAGE.parent.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _imported_by(notebook: Path, modules: set[str]) -> set[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gsm8k_nb"):
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            names |= inside or {node.module}
    return names


def uncalled() -> list[str]:
    """Public functions and methods whose name stands nowhere but where they are defined and in tests."""
    texts = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")]
    users = [
        *(ROOT / "notebooks").rglob("*.ipynb"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs").glob("*.py"),
        *PACKAGE.rglob("*.toml"),
    ]
    texts += [file.read_text(encoding="utf-8") for file in [*users, ROOT / "README.md", ROOT / "Makefile"]]
    words: dict[str, int] = {}
    for text in texts:
        for word in re.findall(r"\w+", text):
            words[word] = words.get(word, 0) + 1
    defined = [
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not node.decorator_list
    ]
    return sorted({name for name in defined if words[name] <= defined.count(name)})


if __name__ == "__main__":
    counted = budgets()
    print(*counted, sep="\n")
    sys.exit(any(budget.count > budget.most for budget in counted))
