from __future__ import annotations

from pystate.common.configuration.configuration import Configuration, Origin, OriginKind
from pystate.ops.jobmanager.rest.job_settings import job_settings
from pystate.runtime.job_folder.submission import Submission

FILE = Origin(OriginKind.FILE, "/etc/flink-conf.toml, [state.backend] type")
GIVEN = Configuration()
GIVEN.set_checked("state.backend.type", "rocksdb", FILE)
GIVEN.set_checked(
    "execution.checkpointing.interval", "5s", Origin(OriginKind.COMMAND_LINE, "-D execution.checkpointing.interval")
)
GIVEN.set_checked("mine.password", "hush", Origin(OriginKind.FILE, "/etc/flink-conf.toml, [fs]"))
ASKED = Submission(
    "/j/count.py",
    [],
    "/j",
    3,
    "/savepoints/one",
    False,
    GIVEN.to_dict(),
    attached=False,
    python="/p",
    origins=GIVEN.origins(),
)


def test_each_setting_says_where_it_comes_from() -> None:
    in_force = {**GIVEN.to_dict(), "parallelism.default": "3", "execution.checkpointing.interval": "1 min", "mine": "x"}
    found = {one.key: (one.value, one.origin, one.place) for one in job_settings(ASKED, in_force)}

    assert found["state.backend.type"] == ("rocksdb", "file", FILE.place)
    assert found["execution.checkpointing.interval"] == ("1 min", "program", "")
    assert found["parallelism.default"] == ("3", "command line", "-p")
    assert found["execution.state-recovery.path"] == ("/savepoints/one", "command line", "-s")
    assert found["mine"] == ("x", "program", "")
    assert found["restart-strategy.type"] == ("exponential-delay", "default", "with checkpointing")
    assert found["execution.checkpointing.timeout"][1:] == ("default", "")
    assert found["mine.password"][0] == "******"


def test_before_there_is_a_session_and_of_a_client_that_says_no_origins() -> None:
    silent = Submission("/j", [], "/", None, None, False, {"state.backend.type": "hashmap"}, attached=False, python="/p")
    found = {one.key: one.origin for one in job_settings(silent, None)}
    assert (found["state.backend.type"], found["parallelism.default"]) == (None, "default")
