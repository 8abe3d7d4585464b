"""What the second user can read: state, logs, secrets (items 3 and 4)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.security.campaign_context import NO_OTHER_USER, CampaignContext, attack
from tests.security.listening_sockets import listening_sockets_of
from tests.security.report import Finding
from tests.waiting import wait_until

_TEMPORARY = ["/tmp", "/dev/shm"]  # noqa: S108 - where jobs keep what is temporary


@attack("copied-state")
def copied_state(context: CampaignContext, finding: Finding) -> None:
    """The second user has state written to a folder of his, and reads it there."""
    target = context.target
    if context.other_user is None:
        finding.skip(NO_OTHER_USER)
        return
    public = context.public_folder("copies")
    own = public / "his"
    context.other_user.act("make_folder", path=str(own), mode=0o777)
    folder = f"/jobs/{target.job_id}"
    requests = [
        {"method": "POST", "path": f"{prefix}{folder}/savepoints", "body": {"target-directory": place, **format_type}}
        for prefix in ("", "/v1")
        for place in (str(own), f"file:{own}", f"file://{own}/below")
        for format_type in ({}, {"formatType": "NATIVE"})
    ]
    finding.did(f"{len(requests)} savepoints to his folder, without a token")
    answers = context.other_user.act("ask", port=target.port, requests=requests)
    taken = [body for status, body in answers if status < 300]
    finding.unless(not taken, f"{len(taken)} of {len(answers)} were taken in without a token")
    finding.figure(f"answers {sorted({status for status, _ in answers})}")
    if taken:  # give them the time to be written
        target.next_checkpoint()
        time.sleep(2)
    found = context.other_user.act(
        "readable_below", roots=[str(public)], owner=os.getuid(), since=context.began, needles=[target.word]
    )
    finding.unless(
        not found["files"], f"he reads {len(found['files'])} files of the savepoints, {len(found['telling'])} with state"
    )
    finding.did("a savepoint by the owner, without a place")
    status, _ = target.request("POST", f"{folder}/savepoints", {})
    finding.unless(status == 202, f"the owner's own savepoint was answered with {status}")


@attack("open-files")
def open_files(context: CampaignContext, finding: Finding) -> None:
    """The second user reads state, logs and secrets of a home that was made with a umask of 000."""
    target = context.target
    if context.other_user is None:
        finding.skip(NO_OTHER_USER)
        return
    target.request("POST", f"/jobs/{target.job_id}/savepoints", {"target-directory": str(target.root / "savepoints")})
    target.next_checkpoint()
    time.sleep(1)
    _look(context, finding, [str(target.root), *_TEMPORARY], "with a umask of 000")
    paths = [
        listener.address
        for pid in target.pids().values()
        for listener in listening_sockets_of("", pid)
        if isinstance(listener.address, str)
    ]
    finding.did(f"connecting to {len(paths)} Unix sockets of slots")
    entered = context.other_user.act("can_connect", paths=paths)
    finding.unless(not entered, f"he connects to {entered}")
    finding.did("a home that is 0777 before it is used, with its logs 0666")
    home = context.installation("open", fake=False)
    for path in (home.home.root, home.home.jobs):
        path.mkdir()
        path.chmod(0o777)
    home.home.jobmanager_log.touch()
    home.home.jobmanager_log.chmod(0o666)
    code, _, told = home.pystate("cluster", "start", check=False)
    finding.figure(f"an open home: {'taken' if code == 0 else 'refused: ' + told.strip().splitlines()[0]}")
    if code == 0:
        program = home.root / "sleeps.py"
        program.write_text("import time\nprint('a line', flush=True)\ntime.sleep(600)\n")
        job_id = home.submit(job_file=str(program))
        wait_until(lambda: b"a line" in home.home.job(job_id).log.read_bytes())
        _look(context, finding, [str(home.root)], "in a home that was open")


def _look(context: CampaignContext, finding: Finding, roots: list[str], where: str) -> None:
    assert context.other_user is not None
    target = context.target
    known = [target.word, target.password, target.home.token.read_text().strip()]
    known += [target.home.job(target.job_id).secret.read_text()]
    found = context.other_user.act("readable_below", roots=roots, owner=os.getuid(), since=context.began, needles=known)
    ours = [path for path in found["files"] if any(_is_kept(Path(path), root) for root in roots)]
    finding.did(f"reading all below {', '.join(roots)} {where}")
    finding.figure(f"{len(ours)} files of homes and snapshots readable")
    names = sorted({Path(path).name for path in ours})[:6]
    finding.unless(not ours, f"{where} he reads {len(ours)} files, {', '.join(names)}")
    telling = [path for path in found["telling"] if path not in ours]
    finding.unless(not telling, f"{where} he reads state or secrets in {telling[:5]}")
    open_for_him = context.other_user.act("writable_below", roots=[root for root in roots if root not in _TEMPORARY])
    finding.unless(not open_for_him, f"{where} he can write to {open_for_him[:5]}")


def _is_kept(path: Path, root: str) -> bool:
    return root not in _TEMPORARY and any(part in ("home", "savepoints", "checkpoints") for part in path.parts)


@attack("secrets")
def secrets_of_others(context: CampaignContext, finding: Finding) -> None:
    """The second user looks for secrets in command lines, environments, answers and temporary files."""
    target = context.target
    known = [target.password, target.home.token.read_text().strip(), target.home.job(target.job_id).secret.read_text()]
    if target.fake:
        finding.skip("the JVM's command line (there is no Spark in this run)")
    if context.other_user is None:
        finding.skip(NO_OTHER_USER)
    else:
        finding.did("/proc/*/cmdline and environ")
        shown = context.other_user.act("shown_by_processes", needles=known)
        finding.unless(not shown, f"secrets are shown by {shown[:5]}")
    finding.did("all answers without a token")
    document = target.request("GET", "/pystate/openapi.json", token=False)[1]
    vertices = [vertex["id"] for vertex in target.request("GET", f"/jobs/{target.job_id}")[1].get("vertices", [])]
    asked = telling = 0
    for path, verbs in document["paths"].items():
        if "get" not in verbs:
            continue
        filled = path.replace("{job_id}", target.job_id).replace("{taskmanager_id}", target.job_id)
        filled = filled.replace("{vertex_id}", (vertices or ["a" * 32])[0]).replace("{checkpoint_id}", "1")
        status, answer = target.request("GET", filled.replace("{log_name}", "jobmanager.log"), token=False)
        asked += 1
        if any(word in str(answer) for word in known):
            telling += 1
            finding.broken(f"GET {path} tells a secret ({status})")
    finding.figure(f"{asked} answers, {telling} with a secret")
