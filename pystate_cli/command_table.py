"""The table of commands and their modules, which are imported lazily."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import typer

_COMMANDS = "pystate_cli.commands"


@dataclass(frozen=True)
class CommandEntry:
    """One command, or a group of commands.

    Attributes:
        module: Its module below `pystate_cli.commands`.
        attribute: Its function, or its `typer.Typer` for a group.
        words: The module's function that prepares its words, for commands followed by the arguments of a program.
    """

    module: str
    attribute: str
    words: str | None = None

    def load(self) -> Any:
        """Return the function or the group."""
        return getattr(self._module(), self.attribute)

    def prepared(self, words: list[str]) -> list[str]:
        """Return the words for the parser, given the words after the command's name."""
        if self.words is None:
            return words
        return list(getattr(self._module(), self.words)(words))

    def _module(self) -> Any:
        return importlib.import_module(f"{_COMMANDS}.{self.module}")


COMMANDS: dict[str, CommandEntry] = {
    "run": CommandEntry("run", "run", "run_arguments"),
    "check": CommandEntry("check", "check", "check_arguments"),
    "debug": CommandEntry("debug", "debug", "debug_arguments"),
    "info": CommandEntry("info", "info", "info_arguments"),
    "graph": CommandEntry("graph", "graph"),
    "list": CommandEntry("list_jobs", "list_jobs"),
    "watch": CommandEntry("watch", "watch"),
    "ui": CommandEntry("ui", "ui"),
    "logs": CommandEntry("logs", "logs"),
    "exceptions": CommandEntry("exceptions", "exceptions"),
    "metrics": CommandEntry("metrics", "metrics"),
    "wait": CommandEntry("wait", "wait"),
    "stop": CommandEntry("stop", "stop"),
    "cancel": CommandEntry("cancel", "cancel"),
    "rescale": CommandEntry("rescale", "rescale"),
    "savepoint": CommandEntry("savepoint", "savepoint"),
    "savepoints": CommandEntry("savepoints.group", "savepoints"),
    "checkpoint": CommandEntry("checkpoint", "checkpoint"),
    "checkpoints": CommandEntry("checkpoints", "checkpoints"),
    "state": CommandEntry("state_read", "state"),
    "query": CommandEntry("query", "query"),
    "cluster": CommandEntry("cluster", "cluster"),
    "config": CommandEntry("config", "config"),
    "doctor": CommandEntry("doctor", "doctor"),
    "new": CommandEntry("new", "new"),
    "completion": CommandEntry("completion", "completion"),
    "version": CommandEntry("version", "version"),
}
"""The commands by name."""


def register(app: typer.Typer, names: Iterable[str]) -> None:
    """Add commands to the application."""
    for name in names:
        entry = COMMANDS[name]
        found = entry.load()
        if isinstance(found, typer.Typer):
            app.add_typer(found)
        elif entry.words is not None:
            app.command(name, context_settings={"allow_interspersed_args": False})(found)
        else:
            app.command(name)(found)
