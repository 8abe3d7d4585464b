from __future__ import annotations

import pytest

from pystate.common.text.plain_data import entries
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.runtime.rest import request_bodies as requests
from pystate.runtime.rest.message import RestMessage
from pystate.runtime.rest.registration_messages import ChallengeRequestBody, ProvenMessage

BODIES: dict[str, type[RestMessage]] = {
    "/jobs/{job_id}/checkpoints": requests.CheckpointTriggerRequestBody,
    "/jobs/{job_id}/savepoints": requests.SavepointTriggerRequestBody,
    "/jobs/{job_id}/stop": requests.StopWithSavepointRequestBody,
    "/savepoint-disposal": requests.SavepointDisposalRequest,
    "/pystate/jobs": requests.JobSubmitRequestBody,
    "/pystate/jobs/{job_id}/resubmission": requests.ResubmissionRequestBody,
    "/pystate/jobs/{job_id}/resubmit": requests.ResubmitRequestBody,
    "/pystate/jobs/{job_id}/fork": requests.ForkRequestBody,
    "/pystate/registrations/challenges": ChallengeRequestBody,
    "/pystate/registrations": ProvenMessage,
}
OF_OTHERS = {"/pystate/jobs/{job_id}/queryable-state/values", "/pystate/jobs/{job_id}/replacement"}
"""What the dashboard and programs in other languages send, and no command of ours."""


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.body is not None and route.path not in OF_OTHERS],
    ids=lambda route: route.path,
)
def test_what_our_client_sends_has_the_fields_that_the_route_reads(route):
    sent = {one.key: one for one in entries(BODIES[route.path]).values()}

    assert sent.keys() == {parameter.name for parameter in route.body}
    assert all(parameter.name in sent for parameter in route.body if parameter.required)
