"""The routes about the cluster as a whole."""

from __future__ import annotations

from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.runtime.rest.cluster_messages import ClusterOverview, DashboardConfiguration, StandbyConfiguration
from pystate.runtime.rest.message import EmptyResponseBody

_CONFIG = DashboardConfiguration | StandbyConfiguration


def _overview(request: RestRequest) -> ClusterOverview:
    return messages.overview(job.status() for job in request.dispatcher.jobs())


def _config(_request: RestRequest) -> DashboardConfiguration:
    return messages.dashboard_config()


def _shut_down(request: RestRequest) -> EmptyResponseBody:
    request.context.shut_down()
    return EmptyResponseBody()


ROUTES = (
    RestRoute("GET", "/overview", _overview, "Jobs and slots, counted.", ClusterOverview),
    RestRoute("GET", "/config", _config, "What a web page about this job manager needs.", _CONFIG),
    RestRoute("DELETE", "/cluster", _shut_down, "End the job manager; jobs go on.", EmptyResponseBody, owner_only=True),
)
