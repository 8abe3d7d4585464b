"""What has held from the beginning: tokens, rebinding, cross-site requests, pickles."""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
import time
from collections import Counter
from typing import Any

from tests.ops.jobmanager.harness import REPOSITORY
from tests.security.campaign_context import CampaignContext, attack
from tests.security.report import Finding
from tests.security.target import Installation

_SNAPSHOT = REPOSITORY / "tests" / "fixtures" / "snapshots" / "v0.1.0" / "canonical-hashmap"
_FOREIGN_HOSTS = (
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.example:8081",
    "169.254.169.254",
    "0.0.0.0",  # noqa: S104 - a name that is refused
    "8.8.8.8",
    "[::ffff:8.8.8.8]",
    "127.0.0.1@evil.example",
    "evil.example#127.0.0.1",
    "",
)
_FOREIGN_ORIGINS = (
    "http://evil.example",
    "https://evil.example",
    "null",
    "file://",
    "http://localhost.evil.example",
    "http://localhost:1",
    "http://127.0.0.1.evil.example",
    "http://127.0.0.1@evil.example",
    "chrome-extension://abc",
    "",
)


def _routes(home: Installation) -> list[tuple[str, str, dict[str, Any]]]:
    document = home.request("GET", "/pystate/openapi.json", token=False)[1]
    return [
        (verb.upper(), _somewhere(path), operation)
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    ]


def _somewhere(path: str) -> str:
    """Return a path with its placeholders filled by what is nowhere."""
    filled = path.replace("{checkpoint_id}", "1").replace("{subtask_index}", "0").replace("{log_name}", "x")
    while "{" in filled:
        filled = filled[: filled.index("{")] + secrets.token_hex(16) + filled[filled.index("}") + 1 :]
    return filled


@attack("tokens")
def tokens(context: CampaignContext, finding: Finding) -> None:
    """All routes without a token, and with wrong ones."""
    target = context.target
    routes = _routes(target)
    wrong: list[dict[str, str]] = [
        {},
        *({"Authorization": shown} for shown in ("Bearer x", "Bearer", f"Bearer {secrets.token_hex(32)}", "Basic eDp4")),
        {"Authorization": f"Basic {target.home.token.read_text().strip()}"},
        {"Cookie": f"token={target.home.token.read_text().strip()}"},
    ]
    statuses: Counter[int] = Counter()
    owned = 0
    for verb, path, operation in routes:
        is_owned = operation["security"] == [{"token": []}]
        owned += is_owned
        for headers in wrong:
            status, _ = target.request(verb, path, {} if verb != "GET" else None, headers, token=False)
            statuses[status] += 1
            if is_owned and status != 401:
                finding.broken(f"{verb} {path} is answered with {status} where a token is needed")
            if not is_owned and (status == 401 or status >= 500 and status != 503):
                finding.broken(f"{verb} {path} is answered with {status}")
    finding.did(f"{len(routes)} routes, {owned} of them the owner's, {len(wrong)} times each")
    finding.figure(", ".join(f"{status}: {count}" for status, count in sorted(statuses.items())))
    guarded = context.installation("guarded")
    file = guarded.root / "rest-token"
    file.touch(mode=0o600)
    file.write_text(f"{secrets.token_hex(16)}\n")
    guarded.options["pystate.rest.token-file"] = str(file)
    guarded.start()
    opened = [
        f"{verb} {path}"
        for verb, path, _ in routes
        if guarded.request(verb, path, {} if verb != "GET" else None, token=False)[0] != 401
    ]
    finding.did(f"{len(routes)} routes with pystate.rest.token-file")
    finding.unless(opened == ["GET /pystate/openapi.json"], f"with a token for all, these need none: {opened}")


@attack("browsers")
def browsers(context: CampaignContext, finding: Finding) -> None:
    """Rebinding and cross-site requests, with the token and without."""
    target = context.target
    statuses: Counter[int] = Counter()
    port = target.port
    for verb, path in (
        ("GET", "/jobs"),
        ("POST", "/savepoint-disposal"),
        ("PATCH", f"/jobs/{'0' * 32}"),
        ("DELETE", "/cluster"),
    ):
        for token in (True, False):
            asked = [{"Host": host} for host in _FOREIGN_HOSTS]
            asked += [{"Origin": origin, "Host": f"127.0.0.1:{port}"} for origin in _FOREIGN_ORIGINS]
            for headers in asked:
                status, _ = target.request(verb, path, {} if verb != "GET" else None, headers, token=token)
                statuses[status] += 1
                finding.unless(status in (400, 403), f"{verb} {path} with {headers} is answered with {status}")
    finding.did(f"{statuses.total()} requests to foreign names and from foreign pages")
    finding.figure(", ".join(f"{status}: {count}" for status, count in sorted(statuses.items())))


class _Payload:
    """What leaves a mark where it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


@attack("pickles")
def pickles(context: CampaignContext, finding: Finding) -> None:
    """Snapshots of pickles, which must never run."""
    public = context.public_folder("pickles")
    home = context.installation("pickles-home", fake=False)
    home.start()
    mark = public / "mark"
    payload = pickle.dumps(_Payload(str(mark)))
    variants: dict[str, Any] = {
        "metadata": lambda path, data: payload if path.name == "_metadata" else data,
        "state": lambda path, data: data if path.name == "_metadata" else payload,
        "all": lambda _path, _data: payload,
        "metadata after its head": lambda path, data: data[:16] + payload if path.name == "_metadata" else data,
        "state after its head": lambda path, data: data if path.name == "_metadata" else data[:16] + payload + data[16:],
    }
    good = public / "savepoint-aaaaaa-0123456789ab"
    shutil.copytree(_SNAPSHOT, good)
    for number, change in enumerate(variants.values()):
        place = public / f"savepoint-bbbbbb-{number:012x}"
        shutil.copytree(_SNAPSHOT, place)
        for path in place.rglob("*"):
            if path.is_file():
                path.write_bytes(change(path, path.read_bytes()))
        for words in (("inspect", place), ("verify", place), ("diff", good, place)):
            _, stdout, stderr = home.pystate("savepoints", *words, check=False)
            finding.unless(
                "pystate itself" not in stderr, f"savepoints {words[0]}: {' '.join((stdout + stderr).split())[:120]}"
            )
        status, answer = home.request("POST", "/savepoint-disposal", {"savepoint-path": str(place)})
        _await(home, f"/savepoint-disposal/{answer.get('request-id')}") if status < 300 else None
        if mark.exists():
            finding.broken(f"the pickle in place of {list(variants)[number]} was run")
            shutil.rmtree(mark)
    finding.did(f"{len(variants)} savepoints with pickles in them: inspect, verify, diff, disposal")


def _await(home: Installation, path: str) -> None:
    deadline = time.monotonic() + 20
    while home.request("GET", path)[1].get("status", {}).get("id") == "IN_PROGRESS" and time.monotonic() < deadline:
        time.sleep(0.05)
