"""The resource as people write it: its definition, what is read of it, and what is said about one that is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from pystate_operator.custom_resource import SpecError, definition, read_spec, table
from pystate_operator.resource import DesiredState, Spec, UpgradeMode, Version

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "pystate" / "crds" / "pystatejobs.yaml"
PAGE = ROOT / "docs" / "kubernetes.md"


def resource(**spec):
    job = {"program": "/programs/count.py", **spec.pop("job", {})}
    return {"metadata": {"name": "count", "uid": "u", "generation": 1}, "spec": {"job": job, **spec}}


def test_the_chart_has_the_definition_and_the_page_the_table():
    assert yaml.safe_load(CHART.read_text()) == definition(), "run `make crd`"
    assert "\n".join(table()) in PAGE.read_text(), "\n".join(table())


def test_what_is_left_out_is_as_the_decider_has_it():
    read = read_spec(resource())
    assert read == Spec(read.version)


def test_every_field_is_read():
    read = read_spec(
        resource(
            job={
                "args": ["/in"],
                "parallelism": 3,
                "state": "suspended",
                "upgradeMode": "last-state",
                "initialSavepointPath": "s3://b/sp",
                "allowNonRestoredState": True,
                "savepointTriggerNonce": 4,
            },
            restartNonce=2,
            flinkConfiguration={"state.backend.type": "rocksdb"},
            upgrade={"strategy": "blueGreen", "readinessTimeout": "90 s", "rollback": False},
            savepointHistory={"maxCount": 3, "maxAge": "2 h"},
        )
    )
    assert dataclasses.replace(read, version=Version("")) == Spec(
        Version(""),
        DesiredState.SUSPENDED,
        UpgradeMode.LAST_STATE,
        "s3://b/sp",
        readiness_timeout_s=90,
        rollback=False,
        blue_green=True,
        savepoint_trigger_nonce=4,
        history_max_count=3,
        history_max_age_s=7200,
    )


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        ({"job": {"program": "/programs/other.py"}}, True),
        ({"job": {"args": ["x"]}}, True),
        ({"job": {"parallelism": 2}}, True),
        ({"restartNonce": 1}, True),
        ({"flinkConfiguration": {"a": "b"}}, True),
        ({"job": {"state": "suspended"}}, False),
        ({"job": {"upgradeMode": "stateless", "allowNonRestoredState": True, "savepointTriggerNonce": 1}}, False),
        ({"job": {"args": []}, "restartNonce": 0, "upgrade": {"strategy": "blueGreen"}}, False),
    ],
)
def test_what_is_another_version(change, is_other):
    versions = [read_spec(resource()).version.fingerprint, read_spec(resource(**change)).version.fingerprint]
    assert (versions[0] != versions[1]) is is_other


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"job": {"program": "count.py"}}, "spec.job.program is 'count.py', and must be an absolute path"),
        ({"job": {"paralelism": 2}}, "spec.job.paralelism is not known; there are program, args, parallelism"),
        ({"job": {"parallelism": 0}}, "spec.job.parallelism is 0, and must be from 1 to 32768"),
        ({"job": {"parallelism": True}}, "spec.job.parallelism is True, and must be of type integer"),
        ({"job": {"upgradeMode": "lastState"}}, "must be one of savepoint, last-state, stateless"),
        ({"job": {"args": [1]}}, "spec.job.args[0] is 1, and must be of type string"),
        ({"flinkConfiguration": {"a": 1}}, "spec.flinkConfiguration.a is 1, and must be of type string"),
        ({"upgrade": {"readinessTimeout": "soon"}}, "spec.upgrade.readinessTimeout is 'soon'"),
        ({"savepointHistory": {"maxCount": 0}}, "spec.savepointHistory.maxCount is 0"),
    ],
)
def test_a_wrong_field_is_named(change, said):
    with pytest.raises(SpecError) as raised:
        read_spec(resource(**change))
    assert said in raised.value.message
    assert raised.value.where.startswith("spec.")


def test_without_a_program_it_is_said():
    with pytest.raises(SpecError, match=r"spec\.job is missing"):
        read_spec({"metadata": {}, "spec": {}})
