"""What is small: malformed origins, damaged files, read-only homes, odd places (item 9)."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.security.campaign_context import NO_OTHER_USER, CampaignContext, attack
from tests.security.report import Finding
from tests.security.target import Target

_ORIGINS = (
    "http://[",
    "http://[::1",
    "http://]",
    "//[",
    "http://[v1.x]",
    "http://a:99999",
    "http://[::1]x",
    "http://\xb5",
    "[",
)

_ENDS_S = 60.0
_RUNNING = "it has not ended after a minute"


@attack("origin")
def origin(context: CampaignContext, finding: Finding) -> None:
    """Malformed Origin, Host and Referer headers."""
    statuses: dict[int, int] = {}
    finding.did(f"{len(_ORIGINS)} malformed names as Origin and Host, 10 times each")
    for _ in range(10):
        for name in _ORIGINS:
            for headers in ({"Origin": name}, {"Host": name}, {"Origin": name, "Host": name}):
                status, _answer = context.target.request("GET", "/jobs", headers=headers)
                statuses[status] = statuses.get(status, 0) + 1
    finding.figure(f"answers {statuses}")
    finding.unless(set(statuses) <= {400, 403}, f"they were answered with {statuses}")


@attack("damaged-address")
def damaged_address(context: CampaignContext, finding: Finding) -> None:
    """A jobmanager.json that is damaged."""
    home = context.installation("damaged")
    home.start()
    good = home.home.jobmanager.read_bytes()
    pid = home.manager_pid
    damages = [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b'{"pid": "x", "port": []}',
        good[: len(good) // 2],
        b"[" * 9000,
    ]
    finding.did(f"{len(damages)} kinds of damage, under list, cluster status, cluster start")
    for damage in damages:
        for words in (("list",), ("cluster", "status"), ("cluster", "start")):
            home.home.jobmanager.write_bytes(damage)
            try:
                code, _, told = home.pystate(*words, check=False, timeout=60)
            except subprocess.TimeoutExpired:
                finding.broken(f"{' '.join(words)} hangs with {damage[:20]!r}")
                continue
            if "pystate itself" in told or "Traceback" in told:
                lines = [line for line in told.splitlines() if line.strip()]
                finding.broken(f"{' '.join(words)} with {damage[:20]!r}: {' '.join(lines)[:160]}")
            if damage == b"" and words == ("list",):
                finding.figure(f"list with an empty one: exit code {code}, {' '.join(told.split())[:120]!r}")
    home.home.jobmanager.write_bytes(good)
    finding.unless(
        home.manager_pid == pid and home.request("GET", "/jobs")[0] == 200, "the job manager does not answer afterwards"
    )


@attack("read-only-home")
def read_only_home(context: CampaignContext, finding: Finding) -> None:
    """A home that can only be read."""
    other_user = context.other_user
    if os.getuid() == 0 and other_user is None:
        finding.skip(NO_OTHER_USER)
        return
    home = context.installation("read-only", fake=False)
    prefix = other_user.prefix if os.getuid() == 0 and other_user is not None else ()
    home.home.root.mkdir()
    if prefix:  # root may write everywhere: somebody else has this home
        home.home.root.chmod(0o755)
        readable = f"a home of another user, as {prefix[0]} makes one"
    else:
        readable = "a home of mode 0500"
    for emptied in (True, False):
        if not emptied:
            home.home.jobs.mkdir()
            home.home.jobmanager.write_text("{}")
        if not prefix:
            home.home.root.chmod(0o500)
        finding.did(f"{readable}, {'empty' if emptied else 'with jobs'}: list, cluster start, cluster status, run, doctor")
        for words in (
            ("list",),
            ("cluster", "start"),
            ("cluster", "status"),
            ("run", "-d", str(home.job_file)),
            ("doctor",),
        ):
            done = subprocess.run(
                [*prefix, sys.executable, "-m", "pystate_cli", *words],
                env={**home.environment, "HOME": str(home.root)},
                capture_output=True,
                text=True,
                timeout=120,
                cwd="/",
            )
            told = done.stdout + done.stderr
            if "pystate itself" in told or "Traceback" in told:
                finding.broken(f"{' '.join(words[:2])}: {' '.join(told.split())[:200]}")
        home.home.root.chmod(0o755)


@attack("bad-targets")
def bad_targets(context: CampaignContext, finding: Finding) -> None:
    """Places of savepoints that are none, named by the owner."""
    target = context.target
    places = [
        "simplecache::file:///tmp/x",
        "filecache::file:///tmp/x",
        "file:///tmp/a\nb",
        "/tmp/a\r\nb",
        "/tmp/a\x1b[31mb",
        "zip://x::file:///tmp/y.zip",
        "http://127.0.0.1:9/x",
        "ftp://127.0.0.1:9/x",
        "dask://x",
        "github://x:y@z/",
        "python:os.system",
        "jar:file:///x!/y",
        "reference::/tmp/x",
    ]
    finding.did(f"{len(places)} places, as target of a savepoint and of a stop, and to be disposed of")
    asked = []
    for place in places:
        for path, body in (
            (f"/jobs/{target.job_id}/savepoints", {"target-directory": place}),
            ("/savepoint-disposal", {"savepoint-path": place}),
        ):
            status, answer = target.request("POST", path, body)
            if status >= 500:
                finding.broken(f"{place!r} at {path} was answered with {status}")
            if status < 300:
                asked.append((place, path, str(answer["request-id"])))
    accepted = []
    deadline = time.monotonic() + (5.0 if target.fake else _ENDS_S)
    for place, path, request_id in asked:
        failed = _outcome(target, path, request_id, deadline)
        if failed is None:
            accepted.append(place)
        elif "Traceback" in failed or (failed == _RUNNING and not target.fake):  # a fake doesn't say that it failed
            finding.broken(f"{place!r} at {path}: {failed[:200]}")
    finding.figure(f"{len(asked)} of {2 * len(places)} were taken in, {len(accepted)} done")
    finding.unless(not accepted, f"accepted: {accepted}")


def _outcome(target: Target, path: str, request_id: str, deadline: float) -> str | None:
    """Return why an operation failed; None where it did not."""
    while True:
        answer = target.request("GET", f"{path}/{request_id}")[1]
        if answer.get("status", {}).get("id") == "COMPLETED":
            cause = answer["operation"].get("failure-cause")
            return None if cause is None else str(cause.get("stack-trace", cause))
        if time.monotonic() > deadline:
            return _RUNNING
        time.sleep(0.1)
