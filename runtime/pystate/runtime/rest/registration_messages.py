"""The messages of REST with which programs that run their jobs themselves register these."""

from __future__ import annotations

from pystate.runtime.rest.message import RestMessage


class ChallengeRequestBody(RestMessage):
    """Ask for a challenge."""

    job_id: str
    incarnation: str


class RegistrationChallenge(RestMessage):
    """What a program proves its secret over, once, within a minute.

    Attributes:
        challenge: Random digits.
        protocol: The version of registrations that this job manager speaks.
        instance: Random digits of this job manager's process.
    """

    challenge: str
    protocol: int
    pystate_version: str
    instance: str


class ProvenMessage(RestMessage):
    """A message whose sender knows the secret.

    Attributes:
        message: JSON as text.
        proof: HMAC-SHA256 of it, with the secret as key.
    """

    message: str
    proof: str
