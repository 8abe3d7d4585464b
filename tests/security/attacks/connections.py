"""Connections that prove nothing: silent, half, and more than there are descriptors (item 7)."""

from __future__ import annotations

import itertools
import resource
import time

from tests.security.campaign_context import CampaignContext, attack
from tests.security.held_connections import HeldConnections
from tests.security.process_usage import ProcessUsage, processor_seconds
from tests.security.report import Finding
from tests.security.target import Target

SILENT, HALF = 1100, 600
DEADLINE_S = 100.0
"""When connections that prove nothing must be closed, whatever the deadline of each kind is."""
_CHECKPOINT_S = 12.0
_HALVES = (
    b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"POST /savepoint-disposal HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
    b"GET /jobs HTTP/1.1\r\n",
    b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
)
_HALF_FRAMES = (b"\0\0\0\x40{sha256}abc", b"\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\x14\0")


def _stays_able(target: Target, finding: Finding, during: str) -> None:
    """Check that the job's own work goes on."""
    ended, seconds = target.next_checkpoint()
    finding.figure(f"a checkpoint {during} took {seconds:.2f} s")
    finding.unless(ended == "COMPLETED", f"a checkpoint {during} ended as {ended}")
    finding.unless(seconds < _CHECKPOINT_S, f"a checkpoint {during} took {seconds:.0f} s")


@attack("silent-connections")
def silent_connections(context: CampaignContext, finding: Finding) -> None:
    """Silent connections to REST, driver and slots while a checkpoint runs."""
    target, silent = context.target, context.share_of(SILENT, least=100)
    listeners = target.listeners()
    before = {name: ProcessUsage.of(pid) for name, pid in target.pids().items()}
    with HeldConnections() as held:
        addresses = [listener.address for listener in listeners]
        with held.joining([*addresses, ("127.0.0.1", target.port)], silent):
            _stays_able(target, finding, "while they come")
        finding.did(f"{silent} to each of {len(listeners) + 1} sockets, held")
        _stays_able(target, finding, "among them")
        most = {name: ProcessUsage.of(pid) for name, pid in target.pids().items()}
        more = {
            name: (most[name].threads - old.threads, most[name].rss_mb - old.rss_mb)
            for name, old in before.items()
            if name in most
        }
        told = ", ".join(f"{name} +{threads} threads +{rss} MB" for name, (threads, rss) in more.items())
        finding.figure(f"{held.refused} refused; at the most {told}")
        _await_closed(held, finding)


def _await_closed(held: HeldConnections, finding: Finding, *, dripping: bool = False) -> None:
    said = itertools.repeat(b"a") if dripping else ()
    seconds = held.wait_closed(DEADLINE_S, said)
    if seconds is None:
        finding.broken(f"{held.left()} of {held.made} are open after {DEADLINE_S:.0f} s")
    else:
        finding.figure(f"all {held.made} closed after {seconds:.0f} s more")


@attack("half-requests")
def half_requests(context: CampaignContext, finding: Finding) -> None:
    """Half requests and half handshakes, some of which go on with a byte a second."""
    target, half_ones = context.target, context.share_of(HALF, least=60)
    listeners = target.listeners()
    with HeldConnections() as held:
        for half in _HALVES:
            held.join(("127.0.0.1", target.port), half_ones // len(_HALVES), half)
        for listener in listeners:
            for half in _HALF_FRAMES:
                held.join(listener.address, half_ones // len(_HALF_FRAMES), half)
        sockets = f"{len(listeners)} sockets, held, a byte a second"
        finding.did(f"{half_ones} half requests, as many half handshakes with each of {sockets}")
        _stays_able(target, finding, "among them")
        _await_closed(held, finding, dripping=True)


@attack("idle-keep-alive")
def idle_keep_alive(context: CampaignContext, finding: Finding) -> None:
    """Whole requests on connections that are then kept open."""
    with HeldConnections() as held:
        held.join(
            ("127.0.0.1", context.target.port),
            context.share_of(HALF, least=60),
            b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        )
        finding.did("requests whose connections are held")
        _await_closed(held, finding)


@attack("open-file-limit")
def open_file_limit(context: CampaignContext, finding: Finding) -> None:
    """More connections than a process may have open files: no spinning, no filling of logs."""
    target = context.target
    places = [("job manager", ("127.0.0.1", target.port), target.manager_pid)]
    if target.fake:  # Spark's own part of a driver at its limit is not ours to mend
        places += [(listener.name, listener.address, listener.pid) for listener in target.listeners()]
    else:
        finding.skip("driver and slots at their limit (Spark needs files there, too; the run with fakes has them)")
    for name, address, pid in places:
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        few = ProcessUsage.of(pid).files + 20
        before = sum(path.stat().st_size for path in target.logs())
        used = processor_seconds(pid)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, limits[1]))
        try:
            with HeldConnections() as held:
                held.join(address, 90)
                time.sleep(4)
                spent = processor_seconds(pid) - used
                grown = sum(path.stat().st_size for path in target.logs()) - before
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        finding.did(f"90 connections to the {name}, which may open 20 files more, for 4 s")
        finding.figure(f"{name}: {spent:.1f} s of processor time, {grown:,} bytes of logs")
        finding.unless(spent < 2.0, f"the {name} spends {spent:.1f} s of 4 s in vain")
        finding.unless(grown < 64_000, f"the logs grow by {grown:,} bytes with the {name} at its limit")
    status, _ = target.request("GET", "/jobs")
    finding.unless(status == 200, f"/jobs is answered with {status} afterwards")
