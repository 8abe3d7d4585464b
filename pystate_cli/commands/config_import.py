"""`pystate config import FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import UsageError
from pystate_cli.arguments.options import JsonOption, VerboseOption
from pystate_cli.console.formats import printable
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate_cli.config.flink_config import Imported

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
    from pystate.common.files.home import write_file_atomically
    from pystate_cli.config.flink_config import read_flink_file, sort_settings

    session = Session.of(context)
    source = Path(file).expanduser().absolute()
    target = Path(output).expanduser().absolute()
    found = read_flink_file(source)
    imported = sort_settings(found.settings)
    text = _toml(imported, source.name)
    if output == "-":
        if not as_json:
            session.console.result_text(text.rstrip("\n"))
    else:
        if target.exists() and not force:
            message = "There is a file of that name already."
            raise UsageError(message, where=str(target), hint="--force writes over it, -o names another one")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file_atomically(target, text.encode())
    for number, word in found.unread:
        session.console.warning(f"line {number} ({printable(word)} ...) is left out: it is no `KEY: VALUE`.")
    _tell(session, imported)
    in_force = output != "-" and _is_in_force(target)
    if output != "-":
        session.console.info(_in_force_sentence(target, imported) if in_force else _not_in_force_sentence(target))
    if as_json:
        session.console.result_json(
            {
                "file": None if output == "-" else str(target),
                "text": text if output == "-" else None,
                "in_force": in_force,
                "taken": imported.taken,
                "renamed": imported.renamed,
                "without_effect": imported.without_effect,
                "refused": imported.refused,
                "unknown": imported.unknown,
                "unread": [{"line": number, "begins_with": word} for number, word in found.unread],
            }
        )
    elif output != "-":
        session.console.result(str(target))


def _tell(session: Session, imported: Imported) -> None:
    story, warning = session.console.info, session.console.warning
    story(f"{len(imported.taken)} settings are taken over.")
    for old, today in imported.renamed.items():
        story(f"{old!r} is written as {today!r}.")
    for key, why in imported.without_effect.items():
        warning(f"{key!r} has no effect here: {why}.")
    for key, why in imported.refused.items():
        warning(f"{key!r} is left out: {why}.")
    for key in imported.unknown:
        warning(f"{key!r} is left out: pystate does not know it.")


def _is_in_force(target: Path) -> bool:
    """Return whether a command run in this folder reads the file."""
    from pystate.common.configuration.loaded_configuration import find_file
    from pystate.common.errors import ConfigurationError

    try:
        found = find_file()
    except ConfigurationError:  # PYSTATE_CONF_DIR names a folder without a file
        return False
    return found is not None and found.absolute() == target


def _in_force_sentence(target: Path, imported: Imported) -> str:
    from pystate.common.configuration.conf_template import LIVE

    below = ", ".join(f"{key} = {text}" for key, text in LIVE.items() if key not in imported.taken)
    sentence = "It is in force for commands given in this folder; `pystate config --set-only` shows what they see."
    if target.parent != Path.cwd() / "conf":
        sentence = (
            f"It is in force wherever {target.parent} is the folder of settings; `pystate config --set-only` shows it."
        )
    return f"{sentence} pystate's own settings stay below it: {below}." if below else sentence


def _not_in_force_sentence(target: Path) -> str:
    from pystate.common.configuration.loaded_configuration import CONF_DIR_VARIABLE, CONF_FILE_NAME, find_file
    from pystate.common.errors import ConfigurationError

    try:
        found = find_file()
    except ConfigurationError as error:
        now = f"{error.where} is set: {error.message.rstrip('.')}"
    else:
        now = "pystate's own settings are" if found is None else f"{found} is"
    if target.name != CONF_FILE_NAME:
        return f"It is not in force, {now}: only a file of the name {CONF_FILE_NAME} is read."
    return f"It is not in force here, {now}: --conf-dir {target.parent} or {CONF_DIR_VARIABLE}={target.parent} makes it so."


def _toml(imported: Imported, name: str) -> str:
    from pystate.common.configuration.option_types import toml_string
    from pystate.common.configuration.options import option_of

    lines = [f"# Settings taken over from {name} by `pystate config import`.", ""]
    for key, text in imported.taken.items():
        option = option_of(key)
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
