from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.job_folder.restart_strategies import restart_warnings

OFF = "checkpointing is off (execution.checkpointing.interval is not set): "
FIXED_DELAY = {"restart-strategy.type": "fixed-delay"}
SAVEPOINT = {"execution.state-recovery.path": "/s/x"}


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({}, "a failed job is not restarted; run again it begins from nothing"),
        (FIXED_DELAY, "a restart begins from nothing"),
        (FIXED_DELAY | SAVEPOINT, "a restart begins at the savepoint the job was started from, /s/x"),
        (SAVEPOINT, "a failed job is not restarted; run again it begins at the savepoint the job was started from, /s/x"),
    ],
)
def test_a_job_without_checkpoints_is_told_where_a_restart_begins(options, warning):
    assert restart_warnings(Configuration(options)) == [OFF + warning]


def test_a_job_with_checkpoints_goes_on_from_them():
    assert restart_warnings(Configuration({"execution.checkpointing.interval": "10 s"} | FIXED_DELAY)) == []


def test_a_job_in_batch_mode_lacks_no_setting():
    (warning,) = restart_warnings(Configuration({"execution.runtime-mode": "BATCH"}))
    assert warning.startswith("checkpointing is off (there are none in BATCH mode): a failed job is not restarted")
