"""What tests of the coordinator, the driver and engines begin with."""

import pytest

from pystate.common.job_status import JobStatus
from tests.core.snapshot.conftest import make_completed, make_metadata, make_operator
from tests.runtime.checkpoint.harness import Bench
from tests.runtime.checkpoint.parts import Parts

__all__ = ["bench", "parts", "make_operator", "make_metadata", "make_completed"]


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


@pytest.fixture
def parts(tmp_path):
    """Returns what makes the parts of a coordinator, and no thread that acts on what they decide."""
    made = []

    def make(**options):
        made.append(Parts(tmp_path, options))
        return made[-1]

    yield make
    for one in made:
        one.coordinator._statistics.close()
