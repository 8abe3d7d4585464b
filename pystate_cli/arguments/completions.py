"""Shell completion: job ids and names, savepoints, configuration keys.

Users wait for these after pressing tab, so they have short timeouts, few imports, and report no errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

# typer inspects the types of its callbacks
import typer

from pystate.common.errors import PystateError
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.job_messages import MultipleJobsDetails
from pystate.runtime.rest.query_messages import QueryableStates

if TYPE_CHECKING:
    from pystate_cli.client.rest_client import RestClient

COMPLETE_VARIABLE = "_PYSTATE_COMPLETE"
"""Set by a shell that asks what could stand at the cursor."""

_TIMEOUT_SECONDS = 1.0
_MOST = 50
# names that need quoting are left out: shells treat them differently, and the id is offered as well
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@%+-]*")
_UNHARMLESS = re.compile(r"[^\w .,;@%+=/-]")

Completion = tuple[str, str]
"""A word and what it stands for."""


def prepare_completion() -> None:
    """Read the completion request of a shell."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    os.environ["COLUMNS"] = "10000"  # a shell takes each line as a separate suggestion


def completed_command(names: Container[str]) -> str | None:
    """Return the command in the line that a shell asks about, None if there is none yet."""
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")  # of zsh and fish; of bash
    return next((word for word in line.split()[1:] if word in names), None)


def complete_job(context: typer.Context, incomplete: str) -> list[Completion]:
    """Offer the ids and names of jobs, those that have not ended first."""
    return offered(_job_words(context, ended=True), incomplete)


def complete_running_job(context: typer.Context, incomplete: str) -> list[Completion]:
    """Offer the ids and names of jobs that have not ended."""
    return offered(_job_words(context, ended=False), incomplete)


def complete_savepoint(context: typer.Context, incomplete: str) -> list[Completion]:
    """Offer the savepoints and checkpoints of the last jobs."""
    return offered(_savepoint_words(context), incomplete)


def complete_queryable_state(context: typer.Context, incomplete: str) -> list[Completion]:
    """Offer the queryable states of the job in the words so far."""
    return offered(_state_words(context), incomplete)


def complete_key(incomplete: str) -> list[Completion]:
    """Offer the keys of the configuration."""
    return offered(_key_words(), incomplete)


def offered(words: Iterator[Completion] | Any, incomplete: str) -> list[Completion]:
    """Return the words that begin so and need no quoting; none where an error comes up."""
    found: dict[str, str] = {}
    try:
        for word, meaning in words:
            if word.startswith(incomplete) and _is_safe(word):
                found.setdefault(word, meaning)
    except (PystateError, OSError, ValueError, KeyError, TypeError):
        pass  # no job manager, or an incomplete answer: nothing to offer
    return list(found.items())[:_MOST]


def _is_safe(word: str) -> bool:
    return all(_SAFE.fullmatch(part) for part in re.split(r"^[a-z0-9+.-]+://|/", word) if part)


def _key_words() -> Iterator[Completion]:
    from pystate.common.configuration.options import every_option

    for key, option in every_option().items():
        yield key, option.description.partition(". ")[0]


def _job_words(context: typer.Context, *, ended: bool) -> Iterator[Completion]:
    jobs = sorted(
        _client(context).get("/jobs/overview", MultipleJobsDetails).jobs,
        key=lambda job: (job.state.is_terminal, -job.start_time),
    )
    jobs = [job for job in jobs if ended or not job.state.is_terminal]
    for job in jobs:
        yield job.name, _harmless(f"{job.state.value} {job.jid}")
    for job in jobs:
        yield job.jid, _harmless(f"{job.state.value} {job.name}")


def _savepoint_words(context: typer.Context) -> Iterator[Completion]:
    client = _client(context)
    jobs = sorted(client.get("/jobs/overview", MultipleJobsDetails).jobs, key=lambda job: -job.start_time)[:10]
    for job in jobs:
        for entry in client.get(f"/jobs/{job.jid}/checkpoints", CheckpointingStatistics).history:
            if entry.external_path and not entry.discarded:
                kind = "savepoint" if entry.is_savepoint else "checkpoint"
                # bash splits words at a colon, and a plain path means the same
                path = re.sub("^file:(//)?(?=/)", "", entry.external_path)
                yield path, _harmless(f"{kind} {entry.id} of {job.name}")


def _state_words(context: typer.Context) -> Iterator[Completion]:
    from pystate_cli.arguments.job_selection import find_job

    client = _client(context)
    job_id = find_job(client, str(context.params["job"]))
    for state in client.get(f"/pystate/jobs/{job_id}/queryable-state", QueryableStates).states:
        yield state.name, _harmless(f"{state.kind} by {state.key_type}, of {state.uid}")


def _harmless(meaning: str) -> str:
    """Return an untrusted text without shell syntax: zsh evaluates suggestions."""
    return _UNHARMLESS.sub("?", meaning)


def _client(context: typer.Context) -> RestClient:
    """Return a client of the job manager that the command would use, by the words so far and the settings."""
    from pystate.common.configuration.file_system_settings import initialize
    from pystate.common.configuration.groups.service_options import ClientOptions
    from pystate.common.configuration.loaded_configuration import load_configuration
    from pystate.common.files.home import PystateHome
    from pystate_cli.client.job_manager import find_job_manager

    home = PystateHome()
    given = context.params
    configuration = load_configuration(given.get("conf_dir"), home=home).configuration
    initialize(configuration)
    seconds = min(_TIMEOUT_SECONDS, configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000)
    return find_job_manager(home, given.get("job_manager"), seconds, configuration)
