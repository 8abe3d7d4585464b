"""How many files a process may have open: raised where it has to be, in processes of their own."""

import subprocess
import sys

import pytest

LIMITED = """
import resource, sys
from pystate.common.processes.open_files import allow_open_files
soft, hard, count = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(allow_open_files(count), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
POOL = """
import resource, sys
from pystate.runtime.execution.slots.slot_pool import SlotPool
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
SlotPool("a" * 32, 0, 40, b"secret", None)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def run(program, *arguments):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("soft", "hard", "count", "answer"),
    [
        (256, 1024, 300, "True 300 1024"),
        (256, 1024, 200, "True 256 1024"),  # nothing is taken away
        (256, 1024, 1024, "True 1024 1024"),
        (256, 300, 1000, "False 300 300"),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_it_must_and_may_be(soft, hard, count, answer):
    assert run(LIMITED, soft, hard, count).stdout.strip() == answer


def test_a_pool_of_many_slots_has_room_for_their_connections_or_says_that_it_has_not():
    done = run(POOL, 4096)
    assert (done.stdout.strip(), done.stderr) == (str(512 + 40 * 8), "")
    done = run(POOL, 600)
    assert done.stdout.strip() == "600"
    assert "40 slots need up to 832 open files in the driver" in done.stderr
