"""How long a harness of a source waits."""

from __future__ import annotations

import time

from pystate.common import Types
from pystate.common.processes.machine_load import PatientDeadline
from pystate.connectors.generated.collection_source import CollectionSource
from pystate.testing import SourceTestHarness, source_harness


def test_a_source_is_waited_for_longer_where_it_gets_no_processor(monkeypatch):
    monkeypatch.setattr(source_harness, "_PATIENCE_S", 0.001)
    monkeypatch.setitem(PatientDeadline.__init__.__kwdefaults__, "share", lambda: 0.0)
    answers = iter([False, False, True])

    def done(_):
        time.sleep(0.01)
        return next(answers)

    with SourceTestHarness(lambda: CollectionSource([1, 2], Types.LONG(), "numbers")) as harness:
        assert harness.run_until(done) == [1, 2]
