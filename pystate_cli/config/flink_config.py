"""Reads the configuration files of Flink: `flink-conf.yaml` of 1.x and `config.yaml` of 2.x."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pystate.common.configuration.keys_without_effect import why_without_effect
from pystate.common.configuration.options import canonical_key, is_known, option_of
from pystate.common.configuration.refused_keys import refusal_of
from pystate.common.distribution import pip_install
from pystate.common.errors import ConfigurationError, UsageError

FLAT_NAME = "flink-conf.yaml"
_LISTS = ";"
_MAX_BYTES = 4 << 20
_MAX_DEPTH, _MAX_ALIASES = 64, 20
"""The most nested levels, and the most references to anchors (`*name`); settings need neither."""
_FIRST_WORD = re.compile(r"[^\s=:]{0,60}")


@dataclass(frozen=True)
class FlinkFile:
    """The content of a file.

    Attributes:
        settings: Key -> text.
        unread: The lines that are neither settings nor comments: their numbers, from 1, and their beginnings.
    """

    settings: dict[str, str]
    unread: tuple[tuple[int, str], ...] = ()


@dataclass
class Imported:
    """The result of importing a file's settings.

    Attributes:
        taken: Current key -> text, in the file's order.
        renamed: Older key -> current key.
        without_effect: Key -> why it has no effect here.
        refused: Key -> why its value is invalid.
        unknown: Unknown keys.
    """

    taken: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    without_effect: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def read_flink_file(path: Path) -> FlinkFile:
    """Read a file of either kind, determined by its name, or else by its content.

    Raises:
        UsageError: It can't be read.
        ConfigurationError: It isn't a valid file of its kind.
    """
    try:
        with path.open("rb") as file:  # it may be a pipe
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            message = f"it has more than {_MAX_BYTES} bytes"
            raise ValueError(message)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        message = f"The file can't be read: {getattr(error, 'strerror', None) or error}."
        raise UsageError(message, where=str(path), hint="give the path of a flink-conf.yaml or config.yaml") from error
    if path.name == FLAT_NAME or (path.name != "config.yaml" and not _is_nested(text)):
        return read_flat(text)
    return FlinkFile(read_nested(text, str(path)))


def read_flat(text: str) -> FlinkFile:
    """Return key -> text by Flink's own rules: text after a # is ignored, and so is a line without `: `.

    Of two lines with the same key, the later one wins.
    """
    settings: dict[str, str] = {}
    unread = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        key, colon, value = content.partition(": ")
        if colon and key.strip() and value.strip():
            settings.pop(key.strip(), None)
            settings[key.strip()] = value.strip()
        elif content not in ("", "---"):
            # only its first word: the rest may be a secret
            unread.append((number, _FIRST_WORD.match(content).group()))  # type: ignore[union-attr]
    return FlinkFile(settings, tuple(unread))


def read_nested(text: str, where: str) -> dict[str, str]:
    """Return key -> text of standard YAML, with the keys of nested tables joined by dots.

    Raises:
        ConfigurationError: It isn't YAML, or there is no YAML parser.
    """
    try:
        yaml: Any = importlib.import_module("yaml")
    except ModuleNotFoundError as error:
        message = "Flink 2's config.yaml is standard YAML, and no parser of it is installed."
        raise ConfigurationError(message, where=where, hint=pip_install("yaml")) from error
    try:
        data = yaml.load(text, Loader=_plain_loader(yaml))  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, ValueError) as error:  # the latter of its numbers and times
        message = f"The file is not YAML: {error}"
        raise ConfigurationError(message, where=where) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        message = "The file has no settings: it is not a YAML mapping."
        raise ConfigurationError(message, where=where)
    try:
        return dict(_flattened(data, "", where))
    except RecursionError as error:
        message = "A mapping of the file has itself as a part."
        raise ConfigurationError(message, where=where) from error


def _plain_loader(yaml: Any) -> Any:
    """Return a safe loader that keeps all scalars as strings: `1.10` isn't a number, `on` isn't a boolean.

    It rejects YAML that is nested too deeply, or that aliases would expand to gigabytes.
    """

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        depth = aliases = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            self.aliases += bool(self.check_event(yaml.AliasEvent))
            if self.depth > _MAX_DEPTH or self.aliases > _MAX_ALIASES:
                message = f"more than {_MAX_DEPTH} levels, or more than {_MAX_ALIASES} aliases."
                raise yaml.YAMLError(message)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    resolvers = yaml.SafeLoader.yaml_implicit_resolvers
    kept = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
    PlainLoader.yaml_implicit_resolvers = {
        first: [resolver for resolver in found if resolver[0] in kept] for first, found in resolvers.items()
    }
    return PlainLoader


def _flattened(data: Mapping[Any, Any], above: str, where: str) -> Iterator[tuple[str, str]]:
    for name, value in data.items():
        key = f"{above}{name}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{key}.", where)
        elif isinstance(value, list):
            if any(isinstance(item, (dict, list)) for item in value):
                message = f"The value of {key!r} is a list of more than words."
                raise ConfigurationError(message, where=where)
            yield key, _LISTS.join(str(item) for item in value)
        elif value is not None:
            yield key, str(value)


def sort_settings(settings: Mapping[str, str]) -> Imported:
    """Classify each setting."""
    result = Imported()
    for key, value in settings.items():
        refusal = None if is_known(key) else refusal_of(key, value)
        if refusal is not None:
            result.refused[key] = f"it can't be honoured: {refusal.why}; {refusal.hint}"
            continue
        if not is_known(key):
            why = why_without_effect(key)
            if why is None:
                result.unknown.append(key)
            else:
                result.without_effect[key] = why
            continue
        today = canonical_key(key)
        option = option_of(today)
        try:
            text = value if option is None else option.type.format(option.type.parse(value))
        except ValueError:
            allowed = option.allowed if option is not None else ""
            result.refused[key] = f"{value!r} is not allowed here; allowed: {allowed}"
            continue
        if today in result.taken and today != key:
            result.refused[key] = f"{today!r} is set, too, and is the newer name"
            continue
        if today != key:
            result.renamed[key] = today
        result.taken[today] = text
    return result


def _is_nested(text: str) -> bool:
    """Return whether there is a nested table: a line that ends with a colon, followed by an indented one."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return any(
        line.rstrip().endswith(":") and below.startswith((" ", "\t")) for line, below in zip(lines, lines[1:], strict=False)
    )
