"""`pystate completion bash|zsh|fish`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pystate_cli.arguments.completions import COMPLETE_VARIABLE
from pystate_cli.arguments.options import JsonOption
from pystate_cli.session import Session

_INSTALL = {
    "bash": "for every shell: echo 'eval \"$(pystate completion bash)\"' >> ~/.bashrc",
    "zsh": "for every shell, after compinit: echo 'eval \"$(pystate completion zsh)\"' >> ~/.zshrc",
    "fish": "for every shell: pystate completion fish > ~/.config/fish/completions/pystate.fish",
}


class Shell(str, Enum):
    """Shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
    as_json: JsonOption = False,
) -> None:
    """Print the script that completes commands, options, job ids and names, savepoints and settings in a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    console = Session.of(context).console
    script = get_completion_script(prog_name="pystate", complete_var=COMPLETE_VARIABLE, shell=shell.value)
    if as_json:
        console.result_json({"shell": shell.value, "script": script})
        return
    console.result_text(script)
    if console.is_terminal:
        console.info(_INSTALL[shell.value])
