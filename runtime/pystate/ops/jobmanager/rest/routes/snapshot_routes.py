"""The routes of pystate that look into savepoints and checkpoints: what `pystate savepoints` and `pystate state` print."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.errors import PystateError, UsageError
from pystate.common.text.json_text import json_text
from pystate.core.snapshot.reading.inspection import inspect_operators
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.reading.snapshot_table import select_state, state_table
from pystate.core.snapshot.storage.snapshot_location import parse_location, resolve_snapshot
from pystate.ops.catalog.contents import ContentComparison
from pystate.ops.catalog.difference import compare
from pystate.ops.catalog.key_group_sizes import heaviest_keys, key_group_sizes
from pystate.ops.catalog.listing import find_snapshots
from pystate.ops.catalog.snapshot_sources import snapshot_sources
from pystate.ops.catalog.snapshot_summary import SnapshotSummary, read_snapshot
from pystate.ops.catalog.source_difference import compare_sources
from pystate.ops.catalog.tree import version_forest
from pystate.ops.catalog.verification import Verification
from pystate.ops.jobmanager.rest.parameters import Parameter, directory, number, one_word, required_text, text_or_none
from pystate.ops.jobmanager.rest.route import Handler, RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT, nullable
from pystate.runtime.job_folder.submission import SubmissionFile

_PATH = "/pystate/savepoints"
_MOST_ROWS = 1000
_MOST_VERIFIED = 1 << 30
_MOST_OF_CELL = 1 << 16

_CHECKPOINTS = one_word("checkpoints", "Whether retained checkpoints are listed, too.", "false", ("true", "false"), "choice")
_SNAPSHOT = directory("path", "The directory of the savepoint or checkpoint.", required=True)
_BEFORE = directory("before", "The directory of the one before.", required=True)
_AFTER = directory("after", "The directory of the one after.", required=True)
_UID = Parameter[str]("uid", "The operator's uid.", TEXT, required_text, required=True)
_STATE = Parameter[str]("state", "The state's name.", TEXT, required_text, required=True)
_KEY = Parameter[str | None]("key", "Only this key; composite ones as JSON.", nullable(TEXT), text_or_none)
_KEY_GROUP = number("key-group", "The key group.", 0, 0, (1 << 15) - 1)
_OFFSET = number("offset", "How many rows to leave out.", 0)
_LIMIT = number("limit", "How many rows at most.", 100, 1, _MOST_ROWS)


def _list(request: RestRequest) -> dict[str, Any]:
    with_checkpoints = request[_CHECKPOINTS] == "true"
    places = _directories(request, with_checkpoints=with_checkpoints)
    there = [place for place in places if _is_there(place)]
    catalog = find_snapshots(there, checkpoints=with_checkpoints)
    return {
        "directories": places,
        "trees": [node.to_json() for node in version_forest(catalog.snapshots)],
        "damaged": [{"path": one.uri, "problem": one.problem} for one in catalog.damaged],
    }


def _directories(request: RestRequest, *, with_checkpoints: bool) -> list[str]:
    """Return where snapshots are written to: by the job manager's options, and by those of the jobs that it knows."""
    options = [CheckpointingOptions.SAVEPOINT_DIRECTORY]
    options += [CheckpointingOptions.CHECKPOINTS_DIRECTORY] if with_checkpoints else []
    given = [dict(request.context.configuration)]
    for job in request.dispatcher.jobs():
        with suppress(PystateError):  # a job whose folder is damaged says so elsewhere
            given.append(dict(SubmissionFile.read(job.directory).configuration))
    found = [Configuration(one).get(option) for one in given for option in options]
    places = [place for place in dict.fromkeys(found) if place]
    return [one for one in places if not any(_is_below(one, other) for other in places)]


def _is_below(place: str, other: str) -> bool:
    return place != other and place.startswith(f"{other.rstrip('/')}/")


def _is_there(place: str) -> bool:
    fs, path, _ = parse_location(place)
    return bool(fs.isdir(path))


def _inspect(request: RestRequest) -> dict[str, Any]:
    location = resolve_snapshot(str(request[_SNAPSHOT]))
    metadata = read_snapshot(location)
    operators = inspect_operators(location, metadata, with_timers=True)
    return {
        "snapshot": SnapshotSummary.of(metadata, location.uri).to_json(),
        "operators": [one.to_json() for one in operators],
        "sources": [one.to_json() for one in snapshot_sources(location, metadata)],
    }


def _sources(request: RestRequest) -> dict[str, Any]:
    location = resolve_snapshot(str(request[_SNAPSHOT]))
    return {"sources": [one.to_json() for one in snapshot_sources(location, read_snapshot(location))]}


def _key_groups(request: RestRequest) -> dict[str, Any]:
    location = resolve_snapshot(str(request[_SNAPSHOT]))
    return key_group_sizes(location, read_snapshot(location), request[_UID]).to_json()


def _keys(request: RestRequest) -> dict[str, Any]:
    reader = SnapshotReader(resolve_snapshot(str(request[_SNAPSHOT])).uri)
    group = request[_KEY_GROUP]
    keys, count = heaviest_keys(reader, request[_UID], request[_STATE], group, request[_LIMIT])
    return {"key-group": group, "count": count, "keys": [one.to_json() for one in keys]}


def _compare(request: RestRequest) -> dict[str, Any]:
    before, after = places = [resolve_snapshot(str(request[one])) for one in (_BEFORE, _AFTER)]
    sides = [(place, read_snapshot(place)) for place in places]
    old, new = (inspect_operators(*side) for side in sides)
    differences = compare(old, new, ContentComparison(*sides).are_equal)
    return {
        "before": before.uri,
        "after": after.uri,
        "operators": [one.to_json() for one in differences],
        "sources": [one.to_json() for one in compare_sources(*(snapshot_sources(*side) for side in sides))],
    }


def _verify(request: RestRequest) -> dict[str, Any]:
    location = resolve_snapshot(str(request[_SNAPSHOT]))
    verification = Verification(location, read_snapshot(location), None)
    if verification.size > _MOST_VERIFIED:
        message = f"{location.uri} has {verification.size} bytes of state, which take too long to read for one request."
        raise UsageError(message, hint=f"pystate savepoints verify {location.uri}")
    problems = [problem.to_json() for problem in verification.problems()]
    return {
        "path": location.uri,
        "files": verification.files,
        "bytes": verification.size,
        "problems": problems,
        "sound": not problems,
    }


def _rows(request: RestRequest) -> dict[str, Any]:
    reader = SnapshotReader(resolve_snapshot(str(request[_SNAPSHOT])).uri)
    table = state_table(select_state(reader, request[_UID], request[_STATE], request[_KEY]))
    offset, limit = request[_OFFSET], request[_LIMIT]
    rows = [[_cell(cell) for cell in row] for row in islice(table.rows, offset, offset + limit + 1)]
    return {"columns": list(table.columns), "rows": rows[:limit], "more": len(rows) > limit}


def _cell(value: Any) -> str:
    text = json_text(value)  # one value may be as large as the memory allows, and an answer has a thousand rows
    return text if len(text) <= _MOST_OF_CELL else f"{text[:_MOST_OF_CELL]}… ({len(text)} characters)"


def _route(name: str, handler: Handler, summary: str, *query: Parameter[Any]) -> RestRoute:
    return RestRoute(
        "GET",
        _PATH + name,
        handler,
        summary,
        Any,
        query=query,
        owner_only=True,
        reads_storage=True,
        refusals=(404, 422, 503),
    )


ROUTES = (
    _route("", _list, "The savepoints of the job manager and its jobs, as a tree of versions.", _CHECKPOINTS),
    _route("/inspection", _inspect, "The operators, states and timers of a snapshot.", _SNAPSHOT),
    _route("/sources", _sources, "What the sources of a snapshot's job had read.", _SNAPSHOT),
    _route("/key-groups", _key_groups, "The bytes of an operator's keyed state by key group.", _SNAPSHOT, _UID),
    _route("/keys", _keys, "The largest keys of a key group.", _SNAPSHOT, _UID, _STATE, _KEY_GROUP, _LIMIT),
    _route("/comparison", _compare, "What differs between two snapshots.", _BEFORE, _AFTER),
    _route("/verification", _verify, "Every byte of a snapshot read, and what is wrong with it.", _SNAPSHOT),
    _route("/rows", _rows, "The rows of a state, by page.", _SNAPSHOT, _UID, _STATE, _KEY, _OFFSET, _LIMIT),
)
