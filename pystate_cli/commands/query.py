"""`pystate query JOBID [STATE KEY] [--consistency live|checkpointed] [--watch [-n SECONDS]]`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from pystate.common.errors import UsageError
from pystate.runtime.rest.query_messages import KvStateAnswer, QueryableStates
from pystate_cli.arguments.completions import complete_queryable_state
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import (
    ApplicationOption,
    JobManagerOption,
    JsonOption,
    RunningJobIdArgument,
    VerboseOption,
)
from pystate_cli.console.watching import DEFAULT_INTERVAL, IntervalOption, WatchOption, refuse_watched_json, watch
from pystate_cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystate_cli.client.rest_client import RestClient

_PAGE = 1000


class ConsistencyName(str, Enum):
    """Which version is read."""

    CHECKPOINTED = "checkpointed"
    LIVE = "live"


def query(
    context: typer.Context,
    job: RunningJobIdArgument = None,
    state: Annotated[
        str | None,
        typer.Argument(
            metavar="STATE",
            help="The state's queryable name; without it all states of the job are listed.",
            autocompletion=complete_queryable_state,
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="The key; composite keys and untyped ones as JSON.", show_default=False),
    ] = None,
    consistency: Annotated[
        ConsistencyName,
        typer.Option("--consistency", help="The last completed checkpoint's version, or the last finished epoch's."),
    ] = ConsistencyName.CHECKPOINTED,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="START,END", help="Of window state: the window, in ms since 1970.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="Only entries of a map whose keys begin so.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="No more elements or entries.")] = None,
    watched: WatchOption = False,
    seconds: IntervalOption = DEFAULT_INTERVAL,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Look into the state of a running job: a row for each value, list element or map entry."""
    session = Session.of(context)
    console = session.console
    refuse_watched_json(watched, as_json)
    if state is not None and key is None:
        message = f"Of which key is the state {state!r} to be shown?"
        raise UsageError(message, hint=f"pystate query JOBID {state} KEY; pystate query JOBID shows the type of the keys")
    for word in (state, key, namespace, prefix):
        if word is not None and any("\ud800" <= letter <= "\udfff" for letter in word):
            message = f"{word!r} isn't text in UTF-8."
            raise UsageError(message, hint="bytes are written as 0x and hex digits")
    client, job_id = connect_to_job(session, job_manager, job, application_id)
    path = f"/pystate/jobs/{job_id}/queryable-state"
    if state is None or key is None:
        _list(session, client.get(path, QueryableStates), as_json=as_json)
        return
    import pystate.core.queryable.query_errors  # noqa: F401 - the answers that are errors are of its classes
    from pystate_cli.views.query_answer import QueryAnswer, QueryLook

    parameters = {"state": state, "key": key, "consistency": consistency.value}
    parameters |= {} if namespace is None else {"namespace": namespace}
    parameters |= {} if prefix is None else {"prefix": prefix}

    def answer() -> QueryAnswer:
        return QueryAnswer.of(key, namespace, list(_pages(client, f"{path}/value", parameters, limit)))

    if watched:
        watch(console, lambda: QueryLook(answer), seconds)
        return
    found = answer()
    if as_json:
        console.raw(found.json())
    else:
        for line in found.lines():
            console.result(line)
    console.info(found.story())


def _pages(client: RestClient, path: str, parameters: dict[str, str], limit: int | None) -> Iterator[KvStateAnswer]:
    left, cursor = limit, None
    while True:
        page = _PAGE if left is None else min(_PAGE, left)
        asked = {**parameters, "limit": str(page), **({} if cursor is None else {"cursor": cursor})}
        answer = client.get(f"{path}?{urlencode(asked)}", KvStateAnswer)
        yield answer
        cursor = answer.cursor
        left = None if left is None else left - len(answer.elements or answer.entries or ())
        if cursor is None or left == 0:
            return


def _list(session: Session, found: QueryableStates, *, as_json: bool) -> None:
    from pystate_cli.views.queryable_state_list import STATES

    console = session.console
    if as_json:
        console.result_json(found)
    elif console.is_terminal:
        console.render(STATES.table(found.states, console.width, unicode=console.has_unicode))
    else:
        for line in STATES.plain(found.states):
            console.result(line)
    if not found.states:
        console.info("No state of the job is queryable: descriptor.set_queryable(NAME) makes one so.")
