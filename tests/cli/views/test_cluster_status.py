from __future__ import annotations

import pytest

from pystate_cli.views.cluster_status import ClusterStatus, status_table
from tests.cli.views.test_views import rendered

HOME = "/srv/teams/payments/production/state/pystate-home"


@pytest.mark.parametrize(("width", "in_a_box"), [(100, True), (60, False), (40, False)])
def test_the_home_stays_whole_on_a_narrow_terminal(width, in_a_box):
    one = ClusterStatus("running", "leader", "127.0.0.1:8081", 4711, "0.1.0", 61_000, HOME, None, {"RUNNING": 2})

    view = status_table(one, width, unicode=True)

    assert HOME in (rendered(view, width) if in_a_box else "\n".join(str(line) for line in view.renderables))
    assert ("Job manager" in rendered(view, width)) is in_a_box
