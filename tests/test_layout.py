"""The house as a whole: cheap import, one set of pins, files a newcomer expects."""

import ast
import re
import subprocess
import sys
import tomllib

import yaml

from gsm8k_nb import __version__

from .conftest import ROOT

UNLOCKED = {"vllm"}  # asks for other versions than the lock's: for an environment of its own
HEAVY = ("torch", "transformers", "datasets", "openai", "vllm", "ray")


def modules() -> dict[str, ast.Module]:
    found = {}
    for file in (ROOT / "gsm8k_nb").rglob("*.py"):
        name = ".".join(file.relative_to(ROOT / "gsm8k_nb").with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(file.read_text())
    return found


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


def test_no_code_from_the_hub_is_run():
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
    for line in project()["dependencies"] + [line for extra in extras.values() for line in extra]:
        name = re.split(r"[<>=\[ ]", line)[0]
        assert normal(name) in lock(), name
        assert re.search(rf'"{re.escape(line)}",\s+# \w', text), f"{line} does not say why it is there"


def test_version_is_one():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
