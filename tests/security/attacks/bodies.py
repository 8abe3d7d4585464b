"""Memory that requests without a token take, and what is answered to them (items 2 and 9)."""

from __future__ import annotations

import json
import secrets
import socket

from tests.security.campaign_context import CampaignContext, attack
from tests.security.listening_sockets import opened
from tests.security.process_usage import ProcessUsage
from tests.security.report import Finding

_PATH_BYTES = 4_000_000
_LEAST = 25
_MAX_GROWTH_MB = 64


@attack("bodies")
def bodies(context: CampaignContext, finding: Finding) -> None:
    """Memory by the bodies of requests without a token."""
    target = context.target
    pid = target.manager_pid
    last = ProcessUsage.of(pid).rss_mb
    big = "x" * _PATH_BYTES
    unknown = secrets.token_hex(16)
    attempts = {
        "disposals of 4 MB paths": (200, "/savepoint-disposal", lambda _: {"savepoint-path": f"/{big}"}),
        "disposals of 4 MB URLs": (100, "/savepoint-disposal", lambda _: {"savepoint-path": f"file:{big}"}),
        "savepoints with 4 MB messages": (60, f"/jobs/{unknown}/savepoints", lambda _: {"message": big}),
        "savepoints with 4 MB places": (60, f"/jobs/{unknown}/savepoints", lambda _: {"target-directory": f"/{big}"}),
        "savepoints with 4 MB ids": (60, f"/jobs/{unknown}/savepoints", lambda _: {"triggerId": big}),
        "triggers of unknown jobs": (3000, None, lambda _: {"triggerId": secrets.token_hex(16)}),
        "bodies of 4 MB of fields": (40, f"/jobs/{unknown}/stop", lambda _: {f"f{n}": n for n in range(200_000)}),
        "submissions of 4 MB": (40, "/pystate/jobs", lambda _: {"job_file": big}),
    }
    for what, (times, path, made) in attempts.items():
        times = context.share_of(times, least=_LEAST)
        finding.did(f"{times} {what}")
        statuses: dict[int, int] = {}
        body = json.dumps(made(0)).encode()
        for number in range(times):
            if path is None:
                body = json.dumps(made(number)).encode()
            status, answer = target.request("POST", path or f"/jobs/{secrets.token_hex(16)}/savepoints", body, token=False)
            statuses[status] = statuses.get(status, 0) + 1
            if len(str(answer)) > 100_000:
                finding.broken(f"an answer of {len(str(answer)):,} characters to {what}")
                break
        finding.unless(
            not any(status >= 500 and status != 503 for status in statuses), f"{what} were answered with {statuses}"
        )
        now = ProcessUsage.of(pid).rss_mb
        grown, last = now - last, now
        finding.figure(f"{what}: {statuses}, {grown:+d} MB")
        finding.unless(grown <= _MAX_GROWTH_MB, f"{what} took {grown} MB of memory")


@attack("hang-ups")
def hang_ups(context: CampaignContext, finding: Finding) -> None:
    """Clients that hang up before, in and after the answer."""
    port, job = context.target.port, context.target.job_id
    number_of = context.share_of(900, least=90)
    finding.did(f"{number_of} requests whose client is gone before the answer, or in it")
    head = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
    requests = [
        "GET /jobs/overview HTTP/1.1\r\n{head}\r\n",
        "GET /jobs/{job}/checkpoints HTTP/1.1\r\n{head}\r\n",
        "GET /pystate/openapi.json HTTP/1.1\r\n{head}\r\n",
        "POST /savepoint-disposal HTTP/1.1\r\n{head}Content-Length: 400000\r\n\r\n" + "x" * 1000,
        "POST /jobs/{job}/savepoints HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\nffff\r\nabc",
        'POST /jobs/{job}/savepoints HTTP/1.1\r\n{head}Content-Length: 12\r\n\r\n{{"a":',
        "GET /jobs/overview HTTP/1.1\r\n{head}\r\n" * 20,
        "GET /jobs HTT",
        "",
    ]
    for number in range(number_of):
        text = requests[number % len(requests)].format(head=head, job=job)
        caller = opened(("127.0.0.1", port))
        caller.sendall(text.encode())
        if number % 3 == 1:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
        if number % 3 == 2:
            caller.settimeout(0.05)
            try:
                caller.recv(10)
            except OSError:
                pass
        caller.close()
    status, _ = context.target.request("GET", "/jobs/overview")
    finding.unless(status == 200, f"afterwards /jobs/overview was answered with {status}")
