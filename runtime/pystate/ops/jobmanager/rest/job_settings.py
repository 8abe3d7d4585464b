"""Each setting of a job, and where its value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.configuration import Configuration, Origin, OriginKind
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.configuration.options import every_option
from pystate.common.configuration.sensitive_keys import HIDDEN, is_sensitive
from pystate.runtime.job_folder.restart_strategies import restart_strategy_type
from pystate.runtime.job_folder.submission import Submission
from pystate.runtime.rest.own_job_messages import SettingInfo

_STRATEGY = "restart-strategy.type"


def job_settings(submission: Submission, in_force: Mapping[str, str] | None) -> list[SettingInfo]:
    """Return all settings by key: those that are set, and the defaults of the other options.

    Args:
        submission: What the job was submitted with.
        in_force: The configuration of its Spark session, which has what the program has set, too; None before there is one.
    """
    found: dict[str, tuple[str, Origin | None]] = {}
    origins = submission.origins or {}
    for key, value in submission.configuration.items():
        found[key] = value, Origin.from_text(origins.get(key, ""))
    for key, flag, given in (
        (CoreOptions.DEFAULT_PARALLELISM.key, "-p", submission.parallelism),
        (StateRecoveryOptions.SAVEPOINT_PATH.key, "-s", submission.savepoint_path),
        (StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key, "-n", submission.allow_non_restored_state or None),
    ):
        if given is not None:
            found[key] = "true" if given is True else str(given), Origin(OriginKind.COMMAND_LINE, flag)
    for key, value in (in_force or {}).items():
        if key not in found or found[key][0] != value:
            found[key] = value, Origin(OriginKind.CODE)
    settings = [_setting(key, value, origin) for key, (value, origin) in found.items()]
    values = {key: value for key, (value, _) in found.items()}
    settings += [_unset(option, values) for key, option in every_option().items() if key not in found]
    return sorted(settings, key=lambda one: one.key)


def _unset(option: ConfigOption[Any], values: Mapping[str, str]) -> SettingInfo:
    if option.key == _STRATEGY:  # it follows from others
        strategy = restart_strategy_type(Configuration(values)).value
        place = f"{'without' if strategy == 'none' else 'with'} checkpointing"
        return _setting(option.key, strategy, Origin(OriginKind.DEFAULT, place))
    default = None if option.default is None else option.type.format(option.default)
    return _setting(option.key, default, Origin(OriginKind.DEFAULT))


def _setting(key: str, value: str | None, origin: Origin | None) -> SettingInfo:
    return SettingInfo(
        key=key,
        value=HIDDEN if value is not None and is_sensitive(key) else value,
        origin=None if origin is None else origin.kind.value,
        place="" if origin is None else origin.place,
    )
