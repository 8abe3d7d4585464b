"""What several tests of the coordinator begin with."""

import pytest

from pystate.common.job_status import JobStatus
from tests.driver.harness import Bench


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(**options):
        made.append(Bench(tmp_path, {key.replace("__", "-"): value for key, value in options.items()}))
        return made[-1]

    yield make
    for one in made:
        one.slots.block.set()
        one.coordinator.close(JobStatus.CANCELED)
