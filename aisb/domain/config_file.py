"""
The configuration file: the options of a run by name, for every run that does not say otherwise.

    allow: [exact:llm.example.com]
    env: [AI_API_TOKEN]
    gate-idle: 1800
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.layers import PROJECT, Layer, Setting, check_project
from aisb.domain.limits import PROJECT_CAPS
from aisb.domain.options import CONFIGURABLE, LIST
from aisb.domain.text_file import text_of
from aisb.domain.yaml_reader import YamlReader
from aisb.errors import UsageError

if TYPE_CHECKING:
    import yaml

_FILE = "a configuration file"
_KEYS = {_FILE: tuple(CONFIGURABLE)}
_FORMS = {_FILE: "allow: [exact:llm.example.com], each key on a line of its own"}


def parse_config(data: bytes, name: str, kind: str) -> Layer:
    """
    What the file says, each value with its `name:line`; nothing where there are only comments.

    Raises UsageError for what cannot be meant, and for what a project's file may not say. What the values mean is
    for the options' own parsers.
    """
    text = text_of(data, name)
    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.split("\n")):
        return Layer(kind, {}, {})
    reader = YamlReader(name, _KEYS, _FORMS)
    found = reader.mapping(reader.root(text), _FILE)
    layer = Layer(
        kind,
        scalars={key: _setting(reader, node) for key, node in found.items() if CONFIGURABLE[key].kind != LIST},
        lists={key: _settings(reader, node, key) for key, node in found.items() if CONFIGURABLE[key].kind == LIST},
    )
    _refuse_a_full_default(layer)
    if kind == PROJECT:
        check_project(layer, PROJECT_CAPS)
    return layer


def _setting(reader: YamlReader, node: yaml.Node) -> Setting:
    return Setting(reader.text(node), reader.origin(node))


def _settings(reader: YamlReader, node: yaml.Node, key: str) -> tuple[Setting, ...]:
    return tuple(_setting(reader, item) for item in reader.items(node, key))


def _refuse_a_full_default(layer: Layer) -> None:
    """Everything open is asked for each time, never by a file that somebody forgot."""
    net = layer.scalars.get("net")
    if net is not None and net.value == "full":
        raise UsageError(
            f"{net.origin}: net: full: an open network is never a default",
            hint="give the flag: --net full; or, for a list of hosts, take that line away",
        )
