"""The layout of `--help`: plain lines, without cut names or sentences."""

from __future__ import annotations

from typing import Any

WIDTH = 120
"""Columns of a help page at most."""


def show_whole_sentences(command: Any) -> None:
    """Let a list of commands show the whole first sentence of each, which is cut otherwise.

    Args:
        command: What `typer.main.get_command` gives; with all below.
    """
    for below in getattr(command, "commands", {}).values():
        show_whole_sentences(below)
        below.short_help = " ".join((below.help or "").partition("\n\n")[0].split())
