"""Deleting savepoints as a weapon: links, pipes, and places elsewhere (item 5)."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.ops.jobmanager.harness import REPOSITORY
from tests.security.campaign_context import CampaignContext, attack
from tests.security.report import Finding
from tests.security.target import Installation

_SNAPSHOT = REPOSITORY / "tests" / "fixtures" / "snapshots" / "v0.1.0" / "canonical-hashmap"
_BOTH = ("without a token", "with the token")


def _dispose(target: Installation, path: str, *, token: bool) -> str | None:
    """Ask for a disposal; return the id of the request, None where it is refused."""
    status, answer = target.request("POST", "/savepoint-disposal", {"savepoint-path": path}, token=token)
    return str(answer["request-id"]) if status < 300 else None


def _await_result(target: Installation, request_id: str, seconds: float) -> str | None:
    """Return how a disposal ended; None where it still runs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer: dict[str, Any] = target.request("GET", f"/savepoint-disposal/{request_id}")[1]
        if answer["status"]["id"] == "COMPLETED":
            return str(answer["operation"] or "deleted")
        time.sleep(0.05)
    return None


def _copy(place: Path) -> Path:
    shutil.copytree(_snapshot(), place)
    return place


def _snapshot() -> Path:
    """Return a savepoint's folder."""
    return next(path.parent for path in sorted(_SNAPSHOT.rglob("_metadata")))


@attack("disposal-links")
def disposal_links(context: CampaignContext, finding: Finding) -> None:
    """Links in place of savepoints, of their folders and of their files."""
    target, public = context.target, context.public_folder("links")
    for number, who in enumerate(_BOTH):
        folder = public / str(number)
        victim = folder / "victim"
        names = ["savepoint-aaaaaa-0123456789ab", "chk-1", "chk-2"]
        kept = [_copy(victim / names[0]), victim / "bystander"]
        kept[1].write_text("not a savepoint")
        attacker = folder / "attacker"
        attacker.mkdir()
        # the folder itself is a link
        (attacker / "chk-1").symlink_to(kept[0])
        # a folder of the path is a link
        (attacker / "through").symlink_to(victim)
        # files in it are links to files and folders of others
        own = _copy(attacker / "savepoint-bbbbbb-0123456789ab")
        (own / "linked").symlink_to(kept[1])
        (own / "linked-folder").symlink_to(victim)
        # its metadata is another one's
        borrowed = attacker / "chk-2"
        borrowed.mkdir()
        (borrowed / "_metadata").symlink_to(kept[0] / "_metadata")
        (borrowed / "deep").symlink_to(victim, target_is_directory=True)
        before = _tree(victim)
        paths = [attacker / "chk-1", attacker / "chk-1" / "_metadata", attacker / "through" / names[0], own, borrowed]
        paths.append(attacker / ".." / "attacker" / "chk-1")
        finding.did(f"{len(paths)} paths with links in them, {who}")
        taken = 0
        for path in paths:
            request_id = _dispose(target, str(path), token=bool(number))
            if request_id is None:
                continue
            taken += 1
            ended = _await_result(target, request_id, 30)
            finding.unless(ended is not None, f"the disposal of {path.name} {who} does not end")
            lost = before - _tree(victim)
            named_through = path == attacker / "through" / names[0]
            if lost:
                # the owner may name a place by a link above it
                finding.unless(named_through and number, f"{path.name} {who} deleted {len(lost)} files of another folder")
                shutil.rmtree(victim)
                _copy(kept[0])
                kept[1].write_text("not a savepoint")
        finding.figure(f"{taken} of {len(paths)} taken {who}")
        finding.unless(number or not taken, f"{taken} of {len(paths)} were taken without a token")


def _tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@attack("disposal-fifos")
def disposal_fifos(context: CampaignContext, finding: Finding) -> None:
    """Pipes and devices in place of savepoints' files."""
    public = context.public_folder("fifos")
    places = []
    for number in range(12):
        folder = public / f"savepoint-cccccc-{number:012x}"
        folder.mkdir()
        if number % 3 == 0:
            os.mkfifo(folder / "_metadata")
        elif number % 3 == 1:
            os.mkfifo(public / f"pipe{number}")
            (folder / "_metadata").symlink_to(public / f"pipe{number}")
        else:
            os.mknod(folder / "_metadata", stat.S_IFSOCK | 0o600)
        places.append(folder)
    zero = public / "savepoint-dddddd-0123456789ab"
    zero.mkdir()
    (zero / "_metadata").symlink_to("/dev/zero")
    places.append(zero)
    bare = public / "savepoint-dddddd-0123456789ac"
    os.mkfifo(bare)
    places.append(bare)
    home = context.installation("fifos-home", fake=False)
    home.start()
    for number, who in enumerate(_BOTH):
        finding.did(f"{len(places)} savepoints of pipes, sockets and devices, {who}")
        asked = [_dispose(home, str(place), token=bool(number)) for place in places]
        taken = [one for one in asked if one is not None]
        finding.unless(number or not taken, f"{len(taken)} of {len(asked)} were taken without a token")
        good = _copy(public / f"savepoint-eeeeee-{number:012x}")
        request_id = _dispose(home, str(good), token=True)
        began = time.monotonic()
        ended = None if request_id is None else _await_result(home, request_id, 45)
        finding.figure(f"after them a savepoint of the owner's was deleted in {time.monotonic() - began:.1f} s")
        finding.unless(
            ended is not None and not good.exists(), f"after them ({who}) a savepoint of the owner's is not deleted"
        )
    began = time.monotonic()
    code, _, told = home.pystate("cluster", "stop", check=False)
    finding.did("cluster stop after them")
    finding.figure(f"cluster stop took {time.monotonic() - began:.1f} s")
    finding.unless(code == 0, f"cluster stop: {' '.join(told.split())[:120]}")


@attack("disposal-urls")
def disposal_urls(context: CampaignContext, finding: Finding) -> None:
    """Places of other protocols, chained ones among them: nobody may be connected to."""
    target = context.target
    with _listener() as (port, heard):
        places = [
            f"http://127.0.0.1:{port}/savepoint-ffffff-0123456789ab",
            f"https://127.0.0.1:{port}/x/chk-1",
            f"ftp://127.0.0.1:{port}/x/chk-1",
            f"sftp://127.0.0.1:{port}/x/chk-1",
            f"ssh://127.0.0.1:{port}/x",
            f"smb://127.0.0.1:{port}/x",
            f"webhdfs://127.0.0.1:{port}/x/chk-1",
            f"webdav://127.0.0.1:{port}/x/chk-1",
            f"arrow_hdfs://127.0.0.1:{port}/x",
            f"jupyter://127.0.0.1:{port}/x",
            f"databricks://127.0.0.1:{port}/x",
            f"simplecache::http://127.0.0.1:{port}/chk-1",
            f"blockcache::http://127.0.0.1:{port}/chk-1",
            f"filecache::ftp://127.0.0.1:{port}/chk-1",
            f"zip://chk-1::http://127.0.0.1:{port}/a.zip",
            f"tar://chk-1::http://127.0.0.1:{port}/a.tar",
            f"reference://::http://127.0.0.1:{port}/a.json",
            f"file:///tmp::http://127.0.0.1:{port}/chk-1",
            f"HTTP://127.0.0.1:{port}/chk-1",
            f"git://127.0.0.1:{port}/x",
        ]
        for number, who in enumerate(_BOTH):
            finding.did(f"{len(places)} places of other protocols, {who}")
            asked = {place: _dispose(target, place, token=bool(number)) for place in places}
            taken = [place for place, request_id in asked.items() if request_id is not None]
            finding.unless(number or not taken, f"{len(taken)} of {len(places)} were taken without a token")
            for place in taken:
                _await_result(target, str(asked[place]), 10)
            finding.figure(f"{len(heard)} connections, {len(taken)} taken {who}")
            if heard:
                finding.broken(f"{who} the job manager connected {len(heard)} times, first with {heard[0][:60]!r}")
                heard.clear()


@contextlib.contextmanager
def _listener() -> Iterator[tuple[int, list[bytes]]]:
    """Listen, and note what each connection begins with."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def listen() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.settimeout(1)
                    first = b""
                    with contextlib.suppress(OSError):
                        first = caller.recv(100)
                    heard.append(first)

        threading.Thread(target=listen, daemon=True).start()
        yield int(server.getsockname()[1]), heard
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
