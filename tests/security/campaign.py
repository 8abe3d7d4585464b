"""The security campaign: attacks from outside, one after another, on a job manager and a job that runs on all the while.

    python -m tests.security.campaign [--seed N] [--attacks NAME,NAME] [--requests N] [--fake] [--list]

The attacker is a second user of the machine, without a token; the configuration is the default one, and the owner's umask
is 000. After each attack RSS, threads and open files of job manager, driver and slots must end where they began, no log may
have a new traceback, the job must be RUNNING, its next checkpoint must be COMPLETED, and it must count the next word. The
report goes to stdout and to `benchmarks/results/security_campaign.md`; the exit code is 1 where anything is BROKEN. With
`--fake` driver and slot need no Spark; `test_campaign.py` runs a short seed of that.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

from tests.security import attacks
from tests.security.campaign_context import ATTACKS, FULL_LENGTH, CampaignContext
from tests.security.other_user import OtherUser
from tests.security.process_usage import ProcessUsage, settled
from tests.security.report import HEADER, Finding, Outcome, document, write_document
from tests.security.target import Target, tracebacks_of

for found in pkgutil.iter_modules(attacks.__path__):
    importlib.import_module(f"{attacks.__name__}.{found.name}")


def run_campaign(root: Path, names: Iterable[str], *, seed: int, requests: int, fake: bool) -> list[Finding]:
    """Run attacks; return what became of each.

    Args:
        root: An empty folder that everybody may look into.
        names: Of the attacks.
        seed: Of all that is chosen at random.
        requests: How many requests and handshakes are generated in all.
        fake: Driver and slot need no Spark.
    """
    root.chmod(0o755)
    began = time.time()
    target = Target(root / "target", fake=fake)
    findings = []
    try:
        target.start()
        context = CampaignContext(target, OtherUser.found(), random.Random(seed), requests, root, began)
        _warm_up(target)
        first = {name: ProcessUsage.of(pid) for name, pid in target.pids().items()}
        for name in names:
            context.chance = random.Random(f"{seed} {name}")  # the same in whatever company it runs
            findings.append(_attack(context, name))
            print(findings[-1].row(), file=sys.stderr, flush=True)
        findings.append(_all(target, first, len(findings)))
    finally:
        target.close()
    return findings


def _all(target: Target, first: dict[str, ProcessUsage], number: int) -> Finding:
    """Look at all attacks together: what grows a little under each of them."""
    finding = Finding("all of them")
    finding.did(f"{number} attacks, one after another, on one job")
    _check_after(target, finding, first, target.tracebacks())
    return finding


def _warm_up(target: Target) -> None:
    """Let job manager, driver and slots have what they keep: threads of pools, modules, connections."""
    target.next_checkpoint()
    for _ in range(200):
        target.request("GET", "/jobs/overview")
        target.request("GET", f"/jobs/{target.job_id}/checkpoints")
    target.next_checkpoint()


def _attack(context: CampaignContext, name: str) -> Finding:
    target, finding = context.target, Finding(name)
    before = {name: ProcessUsage.of(pid) for name, pid in target.pids().items()}
    told, control_characters = target.tracebacks(), target.control_characters()
    began = time.monotonic()
    try:
        ATTACKS[name](context, finding)
    except Exception as error:
        traceback.print_exc()
        finding.did("(not to its end)")
        finding.broken(f"the attack itself failed: {type(error).__name__}: {str(error)[:300]}")
    finally:
        left = context.clear()
        finding.unless(not left, f"{len(left)} processes are left, {left[:2]}")
    try:
        _check_after(target, finding, before, told)
        more = target.control_characters() - control_characters
        finding.unless(more <= 0, f"{more} control characters in the job manager's log")
    except Exception as error:
        traceback.print_exc()
        finding.broken(f"the job can't be looked at afterwards: {type(error).__name__}: {str(error)[:300]}")
    finding.seconds = time.monotonic() - began
    return finding


def _check_after(target: Target, finding: Finding, before: dict[str, ProcessUsage], told: dict[Path, int]) -> None:
    after, grown = settled(before, target.pids, lambda: target.request("GET", "/jobs/overview"))
    finding.breaks += grown
    finding.after = "; ".join(f"{name} {old.change(after[name])}" for name, old in before.items() if name in after)
    for path, number in target.tracebacks().items():
        if number > told.get(path, 0):
            finding.broken(f"{number - told.get(path, 0)} tracebacks in {path.name}: {_last_traceback(path)}")
    state = target.state(target.job_id)
    finding.unless(state == "RUNNING", f"the job is {state}")
    ended, _ = target.next_checkpoint()
    finding.unless(ended == "COMPLETED", f"the next checkpoint is {ended}")
    finding.unless(target.counts_on(), "the job does not count the next word")


def _last_traceback(path: Path) -> str:
    """Return what the last traceback of a log ends with, else how it goes on."""
    lines = tracebacks_of(path.read_text(errors="replace"))[-1].splitlines()
    return next((line for line in lines if line.strip() and not line.startswith(" ")), " / ".join(lines[-6:]))[:300]


def main() -> int:
    """Run the campaign; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attacks", default="", help="only these, separated by commas")
    parser.add_argument("--requests", type=int, default=FULL_LENGTH, help="generated ones in all (default: %(default)s)")
    parser.add_argument("--fake", action="store_true", help="driver and slot need no Spark")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the homes with their logs there; it must not be there yet")
    parser.add_argument("--no-record", action="store_true", help="leave the recorded page alone")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    arguments = parser.parse_args()
    if arguments.list:
        for name, act in ATTACKS.items():
            print(f"{name:20} {(act.__doc__ or '').splitlines()[0]}")
        return 0
    names = [name for name in arguments.attacks.split(",") if name] or list(ATTACKS)
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        parser.error(f"there is no attack {', '.join(unknown)}; --list names all")
    root = Path(arguments.keep or tempfile.mkdtemp(prefix="pystate-campaign-"))
    if arguments.keep:
        root.mkdir()
    try:
        findings = run_campaign(root, names, seed=arguments.seed, requests=arguments.requests, fake=arguments.fake)
    finally:
        if not arguments.keep:
            shutil.rmtree(root, ignore_errors=True)
    if arguments.no_record or arguments.attacks or arguments.fake:
        print(HEADER, *(finding.row() for finding in findings), sep="\n")
    else:
        words = f"python -m tests.security.campaign --seed {arguments.seed} --requests {arguments.requests}"
        told = "a Spark job (word count, parallelism 2, Spark's local mode)"
        text = document(findings, command=words, seed=arguments.seed, target=told).replace(str(root), "...")
        print(text, f"written to {write_document(text)}", sep="\n")
    return int(any(finding.outcome is Outcome.BROKEN for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
