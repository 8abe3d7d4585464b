"""A short seed of the campaign, with drivers and slots that need no Spark; and the campaign's own tools."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import needs_proc
from tests.security.campaign import run_campaign
from tests.security.campaign_context import ATTACKS
from tests.security.generator import RequestGenerator
from tests.security.other_user import OtherUser
from tests.security.report import Finding, Outcome, document
from tests.security.target import tracebacks_of

pytestmark = needs_proc

SHORT = (
    "bodies",
    "hang-ups",
    "origin",
    "copied-state",
    "secrets",
    "disposal-links",
    "disposal-urls",
    "browsers",
    "tokens",
    "all-ports",
    "generated-requests",
    "generated-handshakes",
)
"""What takes some seconds in all; the others are for a campaign of full length."""


@pytest.fixture(scope="module")
def findings() -> Iterator[dict[str, Finding]]:
    with tempfile.TemporaryDirectory(prefix="pystate-campaign-") as root:  # what keeps others out must be the home itself
        yield {found.attack: found for found in run_campaign(Path(root), SHORT, seed=1, requests=500, fake=True)}


@pytest.mark.parametrize("name", SHORT)
def test_an_attack_from_outside_breaks_nothing(findings: dict[str, Finding], name: str) -> None:
    assert findings[name].breaks == []
    assert findings[name].outcome is Outcome.HELD or OtherUser.found() is None


def test_a_seed_makes_the_same_requests_again() -> None:
    document = {"paths": {"/jobs/{job_id}": {"get": {"security": [], "parameters": []}, "patch": {"security": []}}}}

    def some(seed: int) -> list[bytes]:
        generator = RequestGenerator(random.Random(seed), document, {"job_id": "a" * 32})
        return [generator.request().data for _ in range(300)]

    assert some(1) == some(1) != some(2)


def test_generated_requests_only_look_at_the_job_that_must_run_on() -> None:
    verbs = {verb: {"security": [{"token": []}, {}]} for verb in ("get", "patch", "post")}
    document = {"paths": {"/jobs/{job_id}": verbs, "/jobs/{job_id}/stop": verbs, "/jobs/{job_id}/savepoints": verbs}}
    generator = RequestGenerator(random.Random(1), document, {"job_id": "a" * 32})
    named = [made.data.split()[:2] for made in (generator.request() for _ in range(3000)) if b"a" * 32 in made.data]
    assert named
    assert {verb for verb, _ in named} <= {b"GET", b"HEAD"}
    assert not [path for _, path in named if b"stop" in path or b"savepoints" in path]


def test_what_is_broken_is_in_the_table() -> None:
    held, broken, skipped = Finding("one"), Finding("two"), Finding("three")
    for finding in (held, broken):
        finding.did("something")
    broken.unless(holds=False, what="it fell | apart")
    skipped.skip("a second user")
    text = document([held, broken, skipped], command="command", seed=7, target="a job")
    assert "1 held, 1 BROKEN, 1 skipped" in text
    assert "| two | something | BROKEN. BROKEN: it fell \\| apart |" in text
    assert "| three |  | skipped. not tried: a second user |" in text


def test_every_attack_says_what_it_is() -> None:
    assert all((act.__doc__ or "").splitlines()[0].endswith(".") for act in ATTACKS.values())
    assert set(SHORT) <= set(ATTACKS)


def test_spark_s_own_tracebacks_of_idle_workers_don_t_count() -> None:
    first, last = "Traceback (most recent call last):", "    raise EOFError\nEOFError\n"
    spark = f'{first}\n  File "/x/pyspark/daemon.py", line 264, in manager\n{last}'
    ours = f'{first}\n  File "/x/control.py", line 1, in receive\n{last}'
    assert len(tracebacks_of(f"a line\n{spark}{ours}{spark}another\n")) == 1
    assert "control.py" in tracebacks_of(ours)[0]
