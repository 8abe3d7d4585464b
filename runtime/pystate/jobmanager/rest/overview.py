"""The routes about the cluster as a whole."""

from __future__ import annotations

from typing import Any

from pystate.jobmanager.rest import messages
from pystate.jobmanager.rest.route import RestRequest, RestRoute
from pystate.jobmanager.rest.schemas import EMPTY, INTEGER, TEXT, TRUTH, nullable, record

_COUNTS = (
    "taskmanagers",
    "slots-total",
    "slots-available",
    "jobs-running",
    "jobs-finished",
    "jobs-cancelled",
    "jobs-failed",
)
_OVERVIEW = record({**dict.fromkeys(_COUNTS, INTEGER), "flink-version": TEXT, "flink-commit": TEXT, "pystate-version": TEXT})
_FEATURES = ("web-submit", "web-cancel", "web-rescale", "web-history")
_CONFIG = record(
    {
        "refresh-interval": INTEGER,
        "timezone-name": TEXT,
        "timezone-offset": INTEGER,
        "flink-version": TEXT,
        "flink-revision": TEXT,
        "features": record(dict.fromkeys(_FEATURES, TRUTH)),
        "pystate-version": TEXT,
    },
    # of a job manager that doesn't lead: who does
    {"pystate-leader": nullable(record({"address": TEXT, "instance": TEXT}))},
)


def _overview(request: RestRequest) -> dict[str, Any]:
    return messages.overview(job.status() for job in request.dispatcher.jobs())


def _config(_request: RestRequest) -> dict[str, Any]:
    return messages.dashboard_config()


def _shut_down(request: RestRequest) -> dict[str, Any]:
    request.context.shut_down()
    return {}


ROUTES = (
    RestRoute("GET", "/overview", _overview, "Jobs and slots, counted.", _OVERVIEW),
    RestRoute("GET", "/config", _config, "What a web page about this job manager needs.", _CONFIG),
    RestRoute("DELETE", "/cluster", _shut_down, "End the job manager; jobs go on.", EMPTY, owner_only=True),
)
