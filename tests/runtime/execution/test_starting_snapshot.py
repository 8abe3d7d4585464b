"""The snapshot that a job was started from was there once: where it isn't any more, its storage may come back."""

import pytest

from pystate.common.configuration.groups.checkpointing_options import RecoveryClaimMode
from pystate.common.errors import NoSnapshotError, StorageError
from pystate.runtime.execution.restore import starting_snapshot
from pystate.runtime.job_folder.restart_strategies import is_fatal


@pytest.mark.parametrize(("begun", "error"), [(False, NoSnapshotError), (True, StorageError)])
@pytest.mark.parametrize("folder", ["savepoint-1", "empty"])
def test_a_snapshot_that_is_not_there_ends_a_first_start_only(tmp_path, folder, begun, error):
    (tmp_path / "empty").mkdir()
    path = str(tmp_path / folder)
    with pytest.raises(error) as told:
        starting_snapshot(path, RecoveryClaimMode.NO_CLAIM, lambda _: False, needed=True, begun=begun)
    assert is_fatal(told.value) is not begun
    assert starting_snapshot(path, RecoveryClaimMode.CLAIM, lambda _: False, needed=False, begun=begun) is None
