"""Claim modes and savepoint formats on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common.errors import UsageError
from pystate_cli.arguments.snapshot_options import checked_format, claim_mode_property
from pystate_cli.client.rest_client import RestClient
from tests.core.snapshot.snapshots import write_savepoint

CLAIM_MODE = "execution.state-recovery.claim-mode"


def test_claim_modes_set_flinks_option():
    assert claim_mode_property(None, None) == []
    assert claim_mode_property("claim", None) == [f"{CLAIM_MODE}=CLAIM"]
    assert claim_mode_property("No_Claim", None) == [f"{CLAIM_MODE}=NO_CLAIM"]
    assert claim_mode_property(None, "legacy") == [f"{CLAIM_MODE}=LEGACY"]


@pytest.mark.parametrize(
    ("modes", "problem"), [(("mine", None), "'mine'"), ((None, ""), "''"), (("claim", "claim"), "old name of --claimMode")]
)
def test_other_modes_are_refused(modes, problem):
    with pytest.raises(UsageError, match=problem):
        claim_mode_property(*modes)


def test_formats():
    assert [checked_format(text) for text in (None, "canonical", "NATIVE")] == ["CANONICAL", "CANONICAL", "NATIVE"]
    with pytest.raises(UsageError, match="-type 'bogus'"):
        checked_format("bogus")


@pytest.fixture
def posted(monkeypatch):
    """The bodies of all requests that ask for something."""
    bodies: list[Any] = []
    post = RestClient.post
    monkeypatch.setattr(
        RestClient, "post", lambda self, path, body, kind: (bodies.append(body), post(self, path, body, kind))[1]
    )
    return bodies


def test_savepoints_are_asked_for_in_their_format(running, pystate, tmp_path, posted):
    for words in (["savepoint", running, tmp_path, "-type", "native"], ["savepoint", running, tmp_path]):
        assert pystate(*words).code == 0
    outcome = pystate("stop", "--type", "native", "-p", tmp_path, running)
    assert f'Suspending job "{running}" with a NATIVE savepoint.' in outcome.err
    assert [body.format_type for body in posted] == ["NATIVE", "CANONICAL", "NATIVE"]
    assert "none without -s" in pystate("cancel", "-type", "native", running).err


def test_a_job_is_submitted_with_its_claim_mode(manager, pystate, posted, tmp_path):
    old = write_savepoint(tmp_path / "savepoints").uri
    assert pystate("run", "-d", "-cm", "claim", "-s", old, manager.job_file, "--finish", "0.1").code == 0
    outcome = pystate("run", "-d", "-rm", "legacy", "-s", old, "-py", manager.job_file, "--finish", "0.1")
    assert "warning: --restoreMode is deprecated, please use --claimMode instead" in outcome.err
    assert [body.configuration[CLAIM_MODE] for body in posted] == ["CLAIM", "LEGACY"]
    assert pystate("run", "-cm", "mine", manager.job_file).code == 2
