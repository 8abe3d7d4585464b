"""The client of a system: a package that is loaded only where it is used, and what `pystate doctor` says of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pystate.common.distribution import pip_install
from pystate.common.errors import JobGraphError
from pystate.connectors.early_check import EarlyFinding
from pystate.connectors.finding import Finding, missing, ok, warn


def missing_client(message: str, extra: str) -> JobGraphError:
    """Return the error for a client that can't be imported here.

    Args:
        message: What needs it.
        extra: The extra that brings it.
    """
    return JobGraphError(message, hint=f"{pip_install(extra)}, on every machine where slots run")


def imported(module: str, message: str, extra: str) -> Any:
    """Return a module of a client.

    Args:
        module: Its name.
        message: What needs it, for the error.
        extra: The extra that brings it.

    Raises:
        JobGraphError: It isn't installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_client(message, extra) from error


def client_findings(module: str, message: str, extra: str, *, in_slots: bool) -> Iterator[EarlyFinding]:
    """Yield that a client is not there, if so.

    Args:
        module: Its name.
        message: What needs it, for the error.
        extra: The extra that brings it.
        in_slots: Whether slots alone need it, and not the driver.
    """
    if not is_there(module):
        yield EarlyFinding(missing_client(message, extra), in_slots=in_slots)


def client_finding(
    extra: str, what: str, package: str, least: tuple[int, ...], *, title: str = "", also: str = "", module: str = ""
) -> Finding:
    """Return whether a client is there, and new enough.

    Args:
        extra: The extra that brings it, which names the finding.
        what: What needs it.
        package: Its name as a module and as a distribution.
        least: The first numbers of the oldest version that does.
        title: Its name for people, if it has another.
        also: What is needed besides it.
        module: Its name as a module, if that is another one.
    """
    if not is_there(module or package):
        text = f"{what}: {title or package} is not installed; jobs that use them need {pip_install(extra)}{also}"
        return missing(extra, text)
    named = f"{title or package} {version(package)}"
    if tuple(map(int, version(package).split(".")[: len(least)])) < least:
        oldest = ".".join(map(str, least))
        return warn(extra, f"{named} is installed, jobs need {oldest} or newer", pip_install(extra))
    return ok(extra, f"{what}: {named} is installed")


def is_there(module: str) -> bool:
    """Return whether a module can be imported, by its name; nothing is imported but the package that it is in."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
