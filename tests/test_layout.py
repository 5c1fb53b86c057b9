"""The house as a whole: levels of modules, cheap import, one set of pins, files a newcomer expects."""

import ast
import re
import subprocess
import sys
import tomllib

import yaml

from gsm8k_nb import __version__

from .conftest import ROOT

LOCAL_ENGINES = (  # in the order in which they build on each other
    "samplers.fingerprint",
    "samplers",
    "samplers.loading",
    "samplers.decoding",
    "samplers.packing",
    "samplers.engine",
    "samplers.transformers",
    "samplers.vllm",
    "samplers.ray",
)
LEVELS = {
    0: [
        "__init__",
        "records",
        "config",
        "answers",
        "numerals",
        "flexible",
        "math_verify_process",
        "peer_rules",
        "calculator",
        "manifest",
        "hub",
        "interrupts",
        "texts",
        "chromium",
    ],
    1: ["data", "prompts", "scoring", "metrics", "stats", "errors", "published", "logs"],
    2: [
        *LOCAL_ENGINES,
        "samplers.replay",
        "samplers.wire",
        "samplers.openai",
        "runs",
        "costs",
        "smoke",
        "logs.lm_eval",
        "logs.inspect_log",
        "logs.lighteval",
        "logs.helm",
        "logs.rows",
    ],
    3: ["sampling", "summary", "comparing", "logs.reading"],
    4: ["browser", "tables", "figures", "logs.importing", "logs.exporting"],
    5: ["report", "sweep", "logs.__main__"],
    6: [
        "compare_tables",
        "lessons",
        "lessons.labels",
        "lessons.prompting",
        "lessons.reading",
        "lessons.sheets",
        "lessons.sliders",
        "lessons.stored",
        "lessons.chance",
        "lessons.better",
        "lessons.renumber",
    ],
    7: ["appendix"],
}
LEVEL = {name: level for level, names in LEVELS.items() for name in names}
SAME_LEVEL = {  # a module of several files, listed in the order in which they build on each other
    ("numerals", "flexible", "math_verify_process", "peer_rules", "answers"),
    ("texts", "config", "manifest"),
    ("data", "prompts"),
    LOCAL_ENGINES,
    ("samplers", "samplers.wire", "samplers.openai"),
    ("samplers", "runs", "samplers.replay"),
    ("lessons.stored", "lessons.labels", "lessons.reading"),
    ("lessons.stored", "lessons.chance", "lessons.better"),
    ("lessons.prompting", "lessons.renumber"),
}
UNLOCKED = {"inspect", "vllm"}  # ask for other versions than the lock's: for an environment of its own
HEAVY = ("torch", "transformers", "datasets", "openai", "vllm", "ray")


def modules() -> dict[str, ast.Module]:
    found = {}
    for file in (ROOT / "gsm8k_nb").rglob("*.py"):
        name = ".".join(file.relative_to(ROOT / "gsm8k_nb").with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(file.read_text())
    return found


def imported(tree: ast.Module) -> set[str]:
    """Modules of the package that a module imports, wherever in the file."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gsm8k_nb":
            base = node.module.removeprefix("gsm8k_nb").lstrip(".")
            inside = [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
            names |= {name for name in inside if name in LEVEL} or {base or "__init__"}
    return names


def test_every_module_has_a_level():
    assert set(modules()) == set(LEVEL)


def test_modules_import_lower_levels_only():
    for name, tree in modules().items():
        for other in imported(tree):
            chain = next((chain for chain in SAME_LEVEL if name in chain and other in chain), None)
            lazily = name == "samplers" and other.startswith("samplers.")  # inside open_sampler
            allowed = LEVEL[other] < LEVEL[name] or lazily or (chain and chain.index(other) < chain.index(name))
            assert allowed, f"{name} (level {LEVEL[name]}) imports {other} (level {LEVEL[other]})"


def test_heavy_packages_are_imported_by_engines_only():
    for name, tree in modules().items():
        if name.startswith("samplers."):
            continue
        for node in tree.body:
            tops = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            tops += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [top for top in tops if top.split(".")[0] in HEAVY], name


def test_no_module_uses_the_private_names_of_another():
    for name, tree in modules().items():
        aliases = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gsm8k_nb":
                private = [alias.name for alias in node.names if alias.name.startswith("_")]
                assert set(private) <= {"__version__"}, name
                aliases |= {alias.asname or alias.name for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
                assert not node.attr.startswith("_") or node.attr.startswith("__"), f"{name}: {ast.unparse(node)}"


def test_no_code_from_the_hub_is_run():  # traps.md 4.31
    for file in (ROOT / "gsm8k_nb").rglob("*.py"):
        assert not re.search(r"trust_remote_code\W+True", file.read_text()), file


def test_import_is_cheap():
    code = f"import gsm8k_nb, gsm8k_nb.config, gsm8k_nb.answers, sys; print([n for n in {HEAVY} if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_names_that_others_script_against():
    from gsm8k_nb import answers, data, metrics, runs, stats

    assert callable(answers.extract) and callable(answers.is_correct) and {"strict", "flexible"} <= set(answers.RULES)
    assert callable(metrics.pass_at_k) and callable(metrics.maj_at_k)
    assert callable(stats.accuracy_interval) and callable(stats.compare)
    assert callable(data.load) and callable(runs.Run)


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins)
    return {normal(name): version for name, version in pins}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_environment_yml_has_the_locks_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    [pip] = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    pins = dict(line.split("==") for line in pip if "==" in line)
    assert pins and all(lock()[normal(name)] == version for name, version in pins.items())
    declared = project()["dependencies"] + project()["optional-dependencies"]["transformers"]
    assert {normal(re.split(r"[<>=\[ ]", line)[0]) for line in declared} <= {normal(name) for name in pins}


def test_every_dependency_is_locked_and_says_why():
    extras = project()["optional-dependencies"]
    extras = {name: lines for name, lines in extras.items() if name not in UNLOCKED}
    text = (ROOT / "pyproject.toml").read_text()
    for line in project()["dependencies"] + [one for extra in extras.values() for one in extra]:
        name = re.split(r"[<>=\[ ]", line)[0]
        assert normal(name) in lock(), name
        assert re.search(rf'"{re.escape(line)}",\s+# \w', text), f"{line} does not say why it is there"


def test_version_is_one():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
