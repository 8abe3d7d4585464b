"""Nothing on the way of a record gets dearer unnoticed.

What is compared are instructions of the interpreter and calls of functions in C, as multiples of those of a plain loop in
the same process: the same numbers in each run, on each machine, whatever else it does. A path that is to cost more, or costs
less, is recorded anew by `python -m tests.costs`, in the commit that changes it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.costs.counting import steps_of
from tests.costs.paths import paths
from tests.costs.recorded import cost_of, dearer, python_version, recorded

ROOT = Path(__file__).parents[2]
SHARE = 0.1
OTHER_PYTHON = 0.5
"""How much more a path may cost in another Python than the one that was counted in, which has other instructions."""


def test_no_path_costs_a_tenth_more_than_was_recorded() -> None:
    # in a process of its own: side outputs, kinds of rows and others change paths of all later records of a process
    command = [sys.executable, "-m", "tests.costs", "--print"]
    counted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(counted.stdout)
    python, held = recorded()
    assert found.keys() == held.keys()
    too_dear = dearer(held, found, SHARE if python == python_version() else OTHER_PYTHON)
    assert not too_dear, "make it cheaper, or record why not with `python -m tests.costs`:\n" + "\n".join(too_dear)


def test_what_is_counted_is_the_same_in_each_run(tmp_path: Path) -> None:
    for made, again in zip(paths(tmp_path), paths(tmp_path), strict=True):
        if made.name in ("records, hashmap", "sum by columns, rocksdb", "state processor, read"):
            assert cost_of(made) == pytest.approx(cost_of(again), rel=0.01)
        made.close()
        again.close()


def test_a_path_that_does_a_fifth_more_is_noticed(tmp_path: Path) -> None:
    path = next(paths(tmp_path))
    held = {path.name: cost_of(path)}
    turns = round(0.2 * steps_of(path.run) / (steps_of(lambda: spin(1_000)) / 1_000))

    def run() -> None:
        path.run()
        spin(turns)

    slower = cost_of(replace(path, run=run))
    path.close()
    (said,) = dearer(held, {path.name: slower}, SHARE)
    assert "+20%" in said
    assert dearer(held, held, SHARE) == []


def spin(turns: int) -> None:
    for _ in range(turns):
        pass
