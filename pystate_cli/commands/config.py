"""`pystate config [KEY]` and `pystate config import FILE`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import ConfigurationError
from pystate_cli.arguments.completions import complete_key
from pystate_cli.arguments.options import ConfDirOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.commands.config_import import import_config
from pystate_cli.parser.default_command import DEFAULT, DefaultCommandGroup
from pystate_cli.session import Session
from pystate_cli.views.setting_list import SETTINGS, SettingRow, details

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.common.configuration.loaded_configuration import LoadedConfiguration

config = typer.Typer(
    name="config",
    cls=DefaultCommandGroup,
    help="Show the settings in force and where each comes from; or take over those of a Flink.",
)
config.command("import")(import_config)


@config.command(DEFAULT)
def show_config(
    context: typer.Context,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]", help="One option, or all that begin with KEY and a dot.", autocompletion=complete_key
        ),
    ] = None,
    set_only: Annotated[
        bool, typer.Option("--set-only", help="Leave out options that have their default.", show_default=False)
    ] = False,
    conf_dir: ConfDirOption = None,
    properties: PropertyOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show the value of each option as `pystate run` would see it here, and where it comes from."""
    from pystate.common.configuration.loaded_configuration import parse_dynamic_properties

    session = Session.of(context)
    console = session.console
    loaded = session.configuration(conf_dir, parse_dynamic_properties(properties or []))
    rows = [row for row in _rows(loaded.configuration) if key is None or _is_meant(row.key, key)]
    if not rows and key is not None:
        raise _unknown(key)
    shown = [row for row in rows if row.is_set or not set_only]
    one = len(rows) == 1 and key is not None
    if as_json:
        console.result_json({"source": _source(loaded), "settings": SETTINGS.json(shown)})
    elif console.is_terminal:
        view = details(rows[0], console.width) if one else SETTINGS.table(shown, console.width, unicode=console.has_unicode)
        console.render(view)
        console.info("")
        console.info(f"read from {_source(loaded)}{_below(loaded)}")
    elif one:
        console.result_text(rows[0].bare)
    else:
        for line in SETTINGS.tabbed(shown):
            console.result(line)


def _below(loaded: LoadedConfiguration) -> str:
    """Return what applies below the file, if anything does."""
    from pystate.common.configuration.configuration import OriginKind

    count = sum(origin.kind is OriginKind.BUILT_IN for _, _, origin in loaded.configuration.items())
    return f", over pystate's own settings (built-in), of which {count} are in force" if loaded.source and count else ""


def _rows(configuration: Configuration) -> list[SettingRow]:
    from pystate.common.configuration.options import every_option

    rows = []
    options = every_option()
    for key, option in options.items():
        is_set = configuration.contains(option)
        default = None if option.default is None else option.type.format(option.default)
        value = configuration.get_string(key, "") if is_set else default
        origin = configuration.origin(key)
        place = origin.place
        if not is_set and key in _DERIVED:
            value, place = _DERIVED[key](configuration)
        rows.append(SettingRow(key, value, is_set, origin.kind.value, place, default, option.allowed, option.description))
    # Spark's own keys have no definition here
    for key, value, origin in configuration.items():
        if key not in options:
            rows.append(SettingRow(key, value, True, origin.kind.value, origin.place, None, "", ""))
    return rows


def _restart_strategy(configuration: Configuration) -> tuple[str, str]:
    from pystate.runtime.job_folder.restart_strategies import restart_strategy_type

    strategy = restart_strategy_type(configuration).value
    return strategy, f"default {'without' if strategy == 'none' else 'with'} checkpointing"


_DERIVED: dict[str, Callable[[Configuration], tuple[str, str]]] = {"restart-strategy.type": _restart_strategy}
"""Options whose value follows from others where they are not set -> what gives that value, and says where it is from."""


def _is_meant(key: str, asked: str) -> bool:
    from pystate.common.configuration.options import canonical_key

    return key == canonical_key(asked) or key.startswith(f"{asked.rstrip('.')}.")


def _unknown(key: str) -> ConfigurationError:
    from pystate.common.configuration.configuration import Origin, OriginKind, unknown_key
    from pystate.common.configuration.keys_without_effect import why_without_effect
    from pystate.common.configuration.refused_keys import refusal_of

    refusal = refusal_of(key, "")
    if refusal is not None:
        return ConfigurationError(f"{key!r} is an option of Flink that can't be honoured: {refusal.why}.", hint=refusal.hint)
    why = why_without_effect(key)
    if why is not None:
        message = f"{key!r} is an option of Flink that has no effect here: {why}."
        return ConfigurationError(message)
    error = unknown_key(key, Origin(OriginKind.COMMAND_LINE))
    error.where = None
    return error


def _source(loaded: LoadedConfiguration) -> str:
    from pystate.common.configuration.loaded_configuration import CONF_DIR_VARIABLE

    if loaded.source is None:
        return "pystate's own settings (built-in); there is no flink-conf.toml in ./conf or ~/.config/pystate"
    variable = os.environ.get(CONF_DIR_VARIABLE)
    named = variable is not None and os.path.abspath(os.path.expanduser(variable)) == os.path.abspath(loaded.source.parent)
    return f"{loaded.source} ({CONF_DIR_VARIABLE})" if named else str(loaded.source)
