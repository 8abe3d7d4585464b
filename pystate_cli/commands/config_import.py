"""`pystate config import FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import UsageError
from pystate_cli.options import JsonOption, VerboseOption
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate_cli.flink_config import Imported

_TARGET = "conf/flink-conf.toml"


def import_config(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="flink-conf.yaml of Flink 1.x, or config.yaml of Flink 2.x.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="What to write; - for stdout.")] = _TARGET,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.", show_default=False)] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Take over the settings of a Flink; what means nothing here is listed with the reason."""
    from pystate.common.home import write_file_atomically
    from pystate_cli.flink_config import read_flink_file, sort_settings

    session = Session.of(context)
    source = Path(file).expanduser().absolute()
    target = Path(output).expanduser().absolute()
    imported = sort_settings(read_flink_file(source))
    text = _toml(imported, source.name)
    if output == "-":
        session.console.result(text.rstrip("\n"))
    else:
        if target.exists() and not force:
            message = "There is a file of that name already."
            raise UsageError(message, where=str(target), hint="--force writes over it, -o names another one")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file_atomically(target, text.encode())
    _tell(session, imported)
    if output == "-":
        return
    if as_json:
        session.console.result_json(
            {
                "file": str(target),
                "taken": imported.taken,
                "renamed": imported.renamed,
                "without_effect": imported.without_effect,
                "refused": imported.refused,
                "unknown": imported.unknown,
            }
        )
    else:
        session.console.result(str(target))


def _tell(session: Session, imported: Imported) -> None:
    story, warning = session.console.story, session.console.warning
    story(f"{len(imported.taken)} settings are taken over.")
    for old, today in imported.renamed.items():
        story(f"{old!r} is written as {today!r}.")
    for key, why in imported.without_effect.items():
        warning(f"{key!r} has no effect here: {why}.")
    for key, why in imported.refused.items():
        warning(f"{key!r} is left out: {why}.")
    for key in imported.unknown:
        warning(f"{key!r} is left out: pystate does not know it.")


def _toml(imported: Imported, name: str) -> str:
    from pystate.common.option_types import toml_string
    from pystate.common.options import ALL_OPTIONS

    lines = [f"# Settings taken over from {name} by `pystate config import`.", ""]
    for key, text in imported.taken.items():
        option = ALL_OPTIONS.get(key)
        value = toml_string(text) if option is None else option.type.to_toml(option.type.parse(text))
        lines.append(f"{toml_string(key)} = {value}")
    left_out = [
        *((key, why) for key, why in imported.without_effect.items()),
        *imported.refused.items(),
        *((key, "pystate does not know it") for key in imported.unknown),
    ]
    if left_out:
        lines += ["", "# Left out:", *(f"#   {key}: {why}" for key, why in left_out)]
    return "\n".join(lines) + "\n"
