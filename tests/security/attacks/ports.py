"""An attack on all that the processes of a job listen on, whoever made it: Spark and PySpark listen, too."""

from __future__ import annotations

from tests.security.all_ports import given_away, sockets_below
from tests.security.campaign_context import NO_OTHER_USER, CampaignContext, attack
from tests.security.report import Finding


@attack("all-ports")
def all_ports(context: CampaignContext, finding: Finding) -> None:
    """The second user asks all ports and Unix sockets of the job's processes, in the words of all that Spark listens for."""
    if context.other_user is None:
        finding.skip(NO_OTHER_USER)
        return
    target = context.target
    found = sockets_below(target.driver_pid(target.job_id))
    found += [one for one in target.listeners() if one.pid not in {other.pid for other in found}]
    paths = sum(isinstance(one.address, str) for one in found)
    finding.did(f"asking {len(found) - paths} ports and {paths} Unix sockets")
    given = given_away(found, context.other_user)
    finding.figure(f"{len(given)} of them give something away")
    finding.unless(not given, "; ".join(given[:3]))
