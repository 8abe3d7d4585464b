"""The layout of `--help`: plain lines without cut names or sentences, and the commands grouped by purpose."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

WIDTH = 120
"""Columns of a help page at most."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Begin": ("new", "doctor", "config"),
    "Run": ("run", "dev", "check", "debug", "info"),
    "Look": ("list", "watch", "ui", "graph", "checkpoints", "metrics", "logs", "exceptions", "wait", "query"),
    "Keep": ("savepoint", "checkpoint", "stop", "cancel"),
    "Change": ("rescale",),
    "Savepoints": ("savepoints", "state"),
    "Serve": ("cluster", "completion", "version"),
}
"""The headings of the help, and the commands below each; as in docs/features.md."""


class SectionedGroup(TyperGroup):
    """Lists the commands under the headings of `SECTIONS`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list of commands for each heading."""
        for title, names in SECTIONS.items():
            commands = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(name, command.get_short_help_str()) for name, command in commands])


def show_whole_sentences(command: Any) -> None:
    """Make lists of commands show whole first sentences, and usage lines show arguments as typed.

    typer truncates the sentences, and writes `{JOB.PY} [[ARGUMENTS]]...`.

    Args:
        command: The result of `typer.main.get_command`; applied to all its subcommands.
    """
    for below in getattr(command, "commands", {}).values():
        show_whole_sentences(below)
        below.short_help = " ".join((below.help or "").partition("\n\n")[0].split())
    for parameter in command.params:
        if parameter.param_type_name == "argument" and parameter.metavar is not None:
            piece = _usage_piece(parameter.metavar, required=parameter.required, repeated=parameter.nargs == -1)
            parameter.get_usage_pieces = lambda _context, _piece=piece: [_piece]


def _usage_piece(metavar: str, *, required: bool, repeated: bool) -> str:
    name = metavar.strip("[].")
    return f"{name if required else f'[{name}]'}{'...' if repeated else ''}"
