"""The options of savepoint formats and of claim modes, as in Flink."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import UsageError

CLAIM_MODE_NAMES = ("-cm", "--claimMode")
RESTORE_MODE_NAMES = ("-rm", "--restoreMode")

FormatOption = Annotated[
    str | None,
    typer.Option(
        "-type",
        "--type",
        metavar="canonical|native",
        help="canonical (the default) restores on every state backend; native, the state backend's own files, is quicker.",
        show_default=False,
    ),
]
ClaimModeOption = Annotated[
    str | None,
    typer.Option(
        *CLAIM_MODE_NAMES,
        metavar="no_claim|claim|legacy",
        help="Whose the snapshot of -s is: no_claim (the default) never deletes it, claim makes it the job's, which deletes"
        " it when it has newer ones, legacy (deprecated) goes on with its files and never deletes them.",
        show_default=False,
    ),
]
RestoreModeOption = Annotated[
    str | None,
    typer.Option(
        *RESTORE_MODE_NAMES, metavar="MODE", help="Flink's old name of --claimMode, deprecated.", show_default=False
    ),
]

_FORMATS = ("CANONICAL", "NATIVE")
_MODES = ("NO_CLAIM", "CLAIM", "LEGACY")


def checked_format(text: str | None) -> str:
    """Return the value of -type for REST.

    Raises:
        UsageError: There is no such format.
    """
    return _one_of(text or _FORMATS[0], _FORMATS, "-type")


def claim_mode_property(claim_mode: str | None, restore_mode: str | None) -> list[str]:
    """Return --claimMode, or else --restoreMode, as `KEY=VALUE`; nothing if neither is given.

    Raises:
        UsageError: There is no such mode, or both are given.
    """
    if claim_mode is not None and restore_mode is not None:
        message = "--restoreMode is the old name of --claimMode: give one of them."
        raise UsageError(message, hint=f"--claimMode {claim_mode}")
    for text, name in ((claim_mode, CLAIM_MODE_NAMES[1]), (restore_mode, RESTORE_MODE_NAMES[1])):
        if text is not None:
            return [f"execution.state-recovery.claim-mode={_one_of(text, _MODES, name)}"]
    return []


def _one_of(text: str, allowed: tuple[str, ...], option: str) -> str:
    if text.upper() not in allowed:
        message = f"{option} {text!r} is not known."
        raise UsageError(message, hint=f"one of {', '.join(name.lower() for name in allowed)}")
    return text.upper()
