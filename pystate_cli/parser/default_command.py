"""A group with a default command: `pystate config KEY` beside `config import FILE`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

DEFAULT = "show"


class DefaultCommandGroup(TyperGroup):
    """Inserts the name of the default command before words that don't begin with a command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the group's name."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)
