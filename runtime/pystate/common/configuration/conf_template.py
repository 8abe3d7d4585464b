"""Writes `conf/flink-conf.toml` from the definitions of the options.

Run as `python -m pystate.common.configuration.conf_template [FILE]`.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

from pystate.common.configuration.config_option import ConfigOption, options_of
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, ExternalizedCheckpointRetention
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.configuration.options import OPTION_GROUPS
from pystate.common.files.home import write_file_atomically

_WIDTH = 120
_HEADER = """
pystate's settings. Keys and meanings are Flink's; keys that begin with pystate. are ours.

A key is written flat and in quotes, as here, or in tables ([execution.checkpointing] and below it interval = "10 s").
A command sets a key with -D key=value, which goes above this file; the program's own settings go above both.
${PYSTATE_HOME} stands for the folder of that name (~/.pystate where the variable is not set).

This file is looked for in --conf-dir, PYSTATE_CONF_DIR, ./conf and ~/.config/pystate; the first one found counts.
Lines without a comment sign are pystate's own settings: in force without any file, and where the file doesn't name the key.
An empty value takes one of them away: "execution.checkpointing.interval" = "" switches checkpoints off. The other lines show
the defaults.
"""
LIVE: dict[str, str] = {
    StateBackendOptions.STATE_BACKEND.key: "hashmap",
    CheckpointingOptions.CHECKPOINTING_INTERVAL.key: "10 s",
    CheckpointingOptions.CHECKPOINTS_DIRECTORY.key: "${PYSTATE_HOME}/checkpoints",
    CheckpointingOptions.SAVEPOINT_DIRECTORY.key: "${PYSTATE_HOME}/savepoints",
    CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION.key: (
        ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION.value
    ),
    # a minute without checkpoints: a storage that is full or away for a moment restarts no job
    CheckpointingOptions.TOLERABLE_FAILURE_NUMBER.key: "5",
}
"""pystate's own settings, in force where nothing else is said: key -> text."""


def render_template() -> str:
    """Return the text of `conf/flink-conf.toml`."""
    lines = [_comment(paragraph) for paragraph in _HEADER.strip().split("\n\n")]
    parts = ["\n#\n".join(lines)]
    for group in OPTION_GROUPS:
        title = inspect.getdoc(group) or group.__name__
        parts.append("\n".join((f"# {'-' * (_WIDTH - 2)}", _comment(title))))
        parts.extend(_option(option) for option in options_of(group))
    return "\n\n".join(parts) + "\n"


def _option(option: ConfigOption[Any]) -> str:
    default = "none" if option.default is None else option.type.to_toml(option.default)
    facts = f"Allowed: {option.allowed}. Default: {default}."
    if option.key in LIVE:
        line = _setting(option)
    else:
        line = f'#"{option.key}" = ' + ('"..."' if option.default is None else default)
    return "\n".join((_comment(option.description), _comment(facts), line))


def _setting(option: ConfigOption[Any]) -> str:
    return f'"{option.key}" = {option.type.to_toml(option.type.parse(LIVE[option.key]))}'


def _comment(text: str) -> str:
    words = " ".join(text.replace("`", "").split())
    lines = textwrap.wrap(words, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"# {line}" for line in lines)


def main(arguments: list[str]) -> int:
    """Write the file, or print it where no file is named."""
    if len(arguments) > 1:
        sys.stderr.write("usage: python -m pystate.common.configuration.conf_template [FILE]\n")
        return 2
    if arguments:
        write_file_atomically(Path(arguments[0]), render_template().encode())
    else:
        sys.stdout.write(render_template())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
