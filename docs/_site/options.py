"""Writes the reference of all options from their definitions: `python docs/_site/options.py FILE`, in .venv."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from pystate.common.configuration.conf_template import LIVE
from pystate.common.configuration.config_option import ConfigOption, options_of
from pystate.common.configuration.options import OPTION_GROUPS

HEADER = """# Options

Every option, from its definition. Keys and meanings are Flink's; keys that begin with `pystate.` are ours. They are set in
[flink-conf.toml](../../conf/flink-conf.toml), by `-D key=value` of a command, or by the program: the later in this list,
the stronger.
`pystate config KEY` says what is in force, and where it was set.
"""


def page() -> str:
    """Return the page."""
    return HEADER + "".join(_chapter(group) for group in OPTION_GROUPS)


def _chapter(group: type) -> str:
    title = " ".join((inspect.getdoc(group) or group.__name__).split("\n\n")[0].split()).rstrip(".")
    parts = [f"\n## {title}\n"]
    for option in options_of(group):
        parts.append(
            f"\n### `{option.key}` {{ #{option.key} }}\n\n{' '.join(option.description.split())}\n\n{_facts(option)}\n"
        )
    return "".join(parts)


def _facts(option: ConfigOption[Any]) -> str:
    default = "none" if option.default is None else f"`{option.type.to_toml(option.default)}`"
    lines = [f"- Allowed: {option.allowed}", f"- Default: {default}"]
    if option.key in LIVE:
        lines.append(f"- pystate's own setting: `{option.type.to_toml(option.type.parse(LIVE[option.key]))}`")
    if option.fallback_keys:
        lines.append(f"- Older names: {', '.join(f'`{key}`' for key in option.fallback_keys)}")
    return "\n".join(lines)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), "utf-8")
