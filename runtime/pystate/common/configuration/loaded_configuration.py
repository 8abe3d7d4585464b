"""Loads a configuration: `flink-conf.toml` over pystate's own settings, and what the command line says over both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from pystate.common.configuration.configuration import Configuration, Origin, OriginKind, check_foreign, unknown_key
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.keys_without_effect import why_without_effect
from pystate.common.configuration.option_types import BooleanType, toml_string
from pystate.common.configuration.options import SPARK_PREFIX, canonical_key, is_known, option_of
from pystate.common.errors import ConfigurationError, DynamicPropertyError, UsageError
from pystate.common.files.home import PystateHome
from pystate.common.files.regular_files import read_small_file

CONF_FILE_NAME = "flink-conf.toml"
CONF_DIR_VARIABLE = "PYSTATE_CONF_DIR"
HOME_VARIABLE = "PYSTATE_HOME"

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# tomli's messages for a key that is a value and a table at once, or a table told twice
_TOML_CLASH = ("Cannot overwrite", "Cannot mutate", "Cannot declare", "Cannot redefine")
_BUILT_IN = Origin(OriginKind.BUILT_IN)


@dataclass(frozen=True)
class LoadedConfiguration:
    """The configuration of file and command line.

    Attributes:
        configuration: The values.
        notices: Sentences for the person at the terminal, about older names of keys.
        source: The file that was read, over pystate's own settings; None if there was none.
    """

    configuration: Configuration
    notices: list[str]
    source: Path | None


def load_configuration(
    conf_dir: str | Path | None = None, overrides: Mapping[str, str] | None = None, *, home: PystateHome
) -> LoadedConfiguration:
    """Load the first `flink-conf.toml` found, which overrides pystate's own settings by key; `overrides` override both.

    It is looked for in `conf_dir`, `PYSTATE_CONF_DIR`, `./conf` and the user's configuration folder. Only one file is read.
    The first two places are someone's wish: a file missing there is an error. pystate's own settings are those that
    `conf/flink-conf.toml` has in the distribution without a comment sign; an empty value takes one of them away.

    Args:
        conf_dir: The value of `--conf-dir`.
        overrides: What `-D` says, see `parse_dynamic_properties`.
        home: Its folder takes the place of `${PYSTATE_HOME}` in values of the file.

    Raises:
        ConfigurationError: The file can't be read, a key is unknown, or a value is not allowed.
        DynamicPropertyError: It is one of the `overrides`.
    """
    source = find_file(conf_dir)
    configuration = _built_in(home)
    notices: list[str] = []
    given: dict[str, str] = {}
    if source is not None:
        for path, raw in _flatten(_parse_toml(_read(source), str(source))):
            key = ".".join(path)
            origin = Origin(OriginKind.FILE, f"{source}, {_toml_path(path)}")
            value = _expand(key, _scalar(key, raw, origin), home, origin)
            _add(configuration, notices, given, key, value, origin)
    given = {}
    for key, value in (overrides or {}).items():
        try:
            _add(configuration, notices, given, key, value, Origin(OriginKind.COMMAND_LINE, f"-D {key}"))
        except ConfigurationError as error:
            raise DynamicPropertyError(error.message, where=error.where, hint=error.hint) from error
    interval, every_epoch = CheckpointingOptions.CHECKPOINTING_INTERVAL, CheckpointingOptions.EVERY_EPOCH
    if configuration.get(every_epoch) and configuration.origin(interval.key) == _BUILT_IN:
        configuration.remove_config(interval.key)  # the other one replaces it
    return LoadedConfiguration(configuration, notices, source)


def _built_in(home: PystateHome) -> Configuration:
    # imported here: the template's generator also runs as a program of its own
    from pystate.common.configuration.conf_template import LIVE

    configuration = Configuration()
    for key, text in LIVE.items():
        configuration.set_checked(key, _expand(key, text, home, _BUILT_IN), _BUILT_IN)
    return configuration


def parse_dynamic_properties(arguments: Sequence[str]) -> dict[str, str]:
    """Parse the arguments of `-D`, each `key=value`; of two values for one key the later one counts.

    Raises:
        UsageError: There is no `=`, or nothing before it.
    """
    result: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        key = key.strip()
        if not equals or not key:
            message = f"-D takes key=value, not {argument!r}."
            raise UsageError(message, hint="for example -D execution.checkpointing.interval=10s")
        result.pop(key, None)  # the later one also goes to the end, where error messages look for it
        result[key] = value.strip()
    return result


def _add(
    configuration: Configuration, notices: list[str], given: dict[str, str], key: str, value: str, origin: Origin
) -> None:
    if not is_known(key):
        check_foreign(key, value, origin, own_parameters=False)
        why = why_without_effect(key)
        notices.append(f"{key!r} has no effect: {why} ({origin}).")
        return
    today = canonical_key(key)
    if today in given:
        other = given[today]
        message = f"{key!r} is set twice." if other == key else f"{other!r} and {key!r} are one option, and both are set."
        raise ConfigurationError(message, where=str(origin), hint=f"keep {today!r} only")
    given[today] = key
    if today != key:
        notices.append(f"{key!r} is read as {today!r}; please write {today!r} ({origin}).")
    if not value and configuration.origin(today) == _BUILT_IN:
        configuration.remove_config(today)
        return
    configuration.set_checked(today, value, origin)


def find_file(conf_dir: str | Path | None = None) -> Path | None:
    """Return the effective configuration file, None if there is none.

    Args:
        conf_dir: The value of `--conf-dir`.

    Raises:
        ConfigurationError: There is none in `conf_dir`, or in `PYSTATE_CONF_DIR`.
    """
    variable = os.environ.get(CONF_DIR_VARIABLE)
    for folder, what in ((conf_dir, "--conf-dir"), (variable, CONF_DIR_VARIABLE)):
        if folder:
            path = Path(folder).expanduser() / CONF_FILE_NAME
            if not path.is_file():
                message = f"There is no {CONF_FILE_NAME} in {folder}."
                raise ConfigurationError(message, where=what)
            return path
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    candidates = (Path("conf") / CONF_FILE_NAME, user / "pystate" / CONF_FILE_NAME)
    return next((path for path in candidates if path.is_file()), None)


def _read(path: Path) -> str:
    try:
        return read_small_file(path).decode("utf-8")
    except (OSError, ValueError) as error:
        message = f"The configuration file can't be read: {error}."
        raise ConfigurationError(message, where=str(path)) from error


def _parse_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as error:  # the former also of a number with very many digits
        message = f"The configuration file is not TOML: {error}."
        hint = None
        if str(error).startswith(_TOML_CLASH):
            message = f"The configuration file says one key twice, or uses it as a value and as a table: {error}."
            hint = (
                "write such keys flat and in quotes, above the first table:"
                ' "state.backend" = "hashmap" and "state.backend.incremental" = true'
            )
        raise ConfigurationError(message, where=name, hint=hint) from error


def _flatten(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, dict):
            yield from _flatten(value, path)
        else:
            yield path, value


def _scalar(key: str, raw: Any, origin: Origin) -> str:
    """Return a TOML value as text."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bool):
        return BooleanType().format(raw)
    if isinstance(raw, (int, float)):
        return repr(raw)
    option = option_of(canonical_key(key))
    if option is None and not is_known(key):
        raise unknown_key(key, origin)
    message = f"The value {raw!r} of {key!r} is neither text, number nor truth value."
    raise ConfigurationError(message, where=str(origin), hint=f"allowed: {option.allowed}" if option else None)


def _expand(key: str, value: str, home: PystateHome, origin: Origin) -> str:
    if key.startswith(SPARK_PREFIX):  # Spark has variables of its own
        return value.replace(f"${{{HOME_VARIABLE}}}", str(home.root))

    def replacement(match: re.Match[str]) -> str:
        if match[1] == HOME_VARIABLE:
            return str(home.root)
        message = f"The value {value!r} of {key!r} has the variable {match[0]}, which is not known."
        raise ConfigurationError(message, where=str(origin), hint=f"the only variable is ${{{HOME_VARIABLE}}}")

    return _VARIABLE.sub(replacement, value)


def _toml_path(path: tuple[str, ...]) -> str:
    parts = [part if _BARE_KEY.fullmatch(part) else toml_string(part) for part in path]
    table = ".".join(parts[:-1])
    return f"[{table}] {parts[-1]}" if table else parts[-1]
