"""YAML of plain values, in which nothing is read as other than it looks.

YAML 1.1 reads ``010`` as 8 and ``1:30`` as 90, and of two equal keys keeps the last: all are refused, by their line,
and so are aliases, a few lines of which stand for billions of values. A date is text, as papermill reads it.
"""

import re
from typing import Any

import yaml

from gsm8k_nb.texts import one_line


class PlainYamlError(ValueError):
    """A text is no YAML of plain values: the message begins with its line."""


class _Yaml(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="an alias is not read here: write the value out", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in names:
                raise yaml.MarkedYAMLError(problem=f"{name!r} stands here twice", problem_mark=key.start_mark)
            names.add(name)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: Any) -> int | float:
        if len(node.value) > 400:  # no parameter takes it, and to write it out Python may refuse
            return float("inf")
        value = self.construct_yaml_float(node) if node.tag.endswith("float") else self.construct_yaml_int(node)
        if re.match(r"[-+]?0[0-9_]", node.value) or ":" in node.value:
            problem = f"{node.value} would be read as {value}: write a number without leading zeros, text in quotes"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return value


yaml.add_constructor("tag:yaml.org,2002:int", _Yaml.construct_number, _Yaml)
yaml.add_constructor("tag:yaml.org,2002:float", _Yaml.construct_number, _Yaml)
yaml.add_constructor("tag:yaml.org,2002:timestamp", _Yaml.construct_yaml_str, _Yaml)


def read_yaml(text: str) -> Any:
    """A YAML text as plain values. PlainYamlError, with its line, for what is none or looks like something else."""
    try:
        return yaml.load(text, _Yaml)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise PlainYamlError(line + one_line(error.problem or error, 300)) from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise PlainYamlError(one_line(error, 300)) from None


def line_of(text: str, key: str) -> int:
    """The line on which a key of a mapping stands, from 1; 1 where it does not stand there."""
    node = yaml.compose(text, _Yaml)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((name.start_mark.line + 1 for name, _ in pairs if name.value == key), 1)
