"""`pystate doctor`."""

from __future__ import annotations

import json
import resource
import socket
import sys
from collections import namedtuple
from datetime import datetime, timezone

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import FileSystemSettings, put_in_force
from pystate.common.errors import ConfigurationError, JavaNotFoundError
from pystate.common.files.home import PystateHome
from pystate.common.processes.open_files import check_files_of_spark
from pystate.connectors.finding import Finding, Health, fail, missing, ok, warn
from pystate_cli.doctor import machine, present_session, service, storage
from pystate_cli.views.finding_list import plain_lines, verdict, view
from tests.cli.views.test_views import rendered

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "flink-conf.toml"
    file.write_text(
        '"execution.checkpointing.dir" = "${PYSTATE_HOME}/checkpoints"\n'
        '"execution.checkpointing.savepoint-dir" = "${PYSTATE_HOME}/savepoints"\n'
        '"rest.port" = 0\n'
    )
    return file


def by_name(outcome):
    return {check["name"]: check for check in json.loads(outcome.out)["checks"]}


def test_a_healthy_machine(pystate, conf, own_home):
    code, out, err = pystate("doctor")

    names = [line[6:23].strip() for line in out.splitlines() if not line.startswith(" ")]
    assert code == 0, out
    of_connectors = ["avro", "delta", "http", "iceberg", "kafka", "mqtt", "protobuf", "redis", "schema-registry", "sql"]
    assert names[:17] == ["python", "packages", "open files", "java", "spark", "home", "settings", *of_connectors]
    assert names[17:20] == ["cores", "checkpoints", "savepoints"]
    assert names[20:22] == ["job manager", "port"]
    assert names[-1] == "clock"
    assert "checks" in err
    assert not own_home.exists(), "a look leaves nothing behind"


def test_json_and_the_exit_code_of_a_failure(pystate, conf):
    outcome = pystate("doctor", "--json", "-D", "execution.checkpointing.dir=/proc/nowhere")

    checks = by_name(outcome)
    assert outcome.code == 1
    assert json.loads(outcome.out)["ok"] is False
    assert checks["checkpoints"]["status"] == "fail"
    assert checks["checkpoints"]["text"].startswith("/proc/nowhere can't be made: ")
    assert checks["checkpoints"]["hint"] == "check execution.checkpointing.dir, its rights and credentials"
    assert checks["savepoints"]["status"] == "ok"


def test_storage_is_tried_with_the_settings_that_are_given(pystate, conf, tmp_path):
    keytab = tmp_path / "none.keytab"
    settings = {
        "execution.checkpointing.dir": "hdfs://localhost:1/x",
        "pystate.hdfs.client": "webhdfs",
        "security.kerberos.login.keytab": keytab,
        "security.kerberos.login.principal": "me@HERE",
    }
    words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    checks = by_name(pystate("doctor", "--json", *words))
    assert checks["checkpoints"]["text"] == "hdfs://localhost:1/x: The keytab can't be read: No such file or directory."


def test_settings_that_can_not_be_read_are_a_finding(pystate, conf):
    conf.write_text('"state.bakend.type" = "x"\n')

    code, out, _ = pystate("doctor")

    assert code == 1
    assert "fail  settings           There is no option 'state.bakend.type'. (conf/flink-conf.toml" in out
    assert "did you mean 'state.backend.type'?" in out


def test_the_job_manager_is_asked(pystate, conf, manager, running):
    checks = by_name(pystate("doctor", "--json"))

    assert checks["job manager"]["text"] == f"answers at 127.0.0.1:{manager.port}; 1 of 1 jobs run"
    assert "port" not in checks


def test_a_dead_job_manager(pystate, conf, own_home):
    own_home.mkdir()
    entry = {"pid": 2**22 - 1, "address": "127.0.0.1", "port": 1, "instance": "x"}
    (own_home / "jobmanager.json").write_text(json.dumps(entry))

    checks = by_name(pystate("doctor", "--json"))

    assert checks["job manager"]["status"] == "warn"
    assert "is dead" in checks["job manager"]["text"]


def test_a_named_job_manager_that_does_not_answer(pystate, conf):
    code, out, _ = pystate("doctor", "-m", "127.0.0.1:1")

    assert code == 1
    assert "fail  job manager" in out


def test_too_few_open_files_fail_where_spark_would_without_a_reason(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    found = machine.check_open_files()
    assert (found.health, found.text) == (
        Health.FAIL,
        "A process may have 256 files open here, and Spark's JVM has 512 soon after its start",
    )
    with pytest.raises(ConfigurationError, match="256 files"):
        check_files_of_spark()


def test_python_packages_and_spark(monkeypatch):
    assert machine.check_python().health is Health.OK
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert machine.check_python().health is Health.FAIL
    monkeypatch.setattr(machine, "_version", lambda name: "" if name == "rich" else "3.5.1")
    assert machine.check_packages().text == "not installed: rich"
    assert machine.check_spark(start=False).text == "PySpark 3.5.1 is too old"
    monkeypatch.setattr(machine, "_version", lambda name: "4.0.5")
    assert machine.check_spark(start=False).health is Health.FAIL


def test_a_foreign_distribution_of_our_import_name_is_found(monkeypatch):
    assert machine.check_packages().health is Health.OK
    monkeypatch.setattr(machine, "_version", lambda name: "0.0.2")
    found = machine.check_packages()
    assert found.health is Health.FAIL
    assert "-m pip uninstall pystate, then" in found.hint
    assert found.hint.endswith("--no-deps pystate-spark")


def test_no_java(monkeypatch, tmp_path):
    def none(home):
        message = "Spark needs Java 17."
        raise JavaNotFoundError(message, hint="install one")

    monkeypatch.setattr("pystate.common.processes.java.find_java", none)

    assert machine.check_java(PystateHome(tmp_path)) == fail("java", "Spark needs Java 17.", "install one")


@pytest.mark.parametrize(
    ("master", "parallelism", "health"),
    [
        (None, "2", Health.OK),
        (None, "9", Health.WARN),
        ("local[6,4]", "2", Health.OK),
        ("local[5]", "2", Health.FAIL),
        ("local", "1", Health.FAIL),
        ("local[*]", "1", Health.OK),
        ("spark://host:7077", "40", Health.OK),
    ],
)
def test_cores(monkeypatch, master, parallelism, health):
    monkeypatch.setattr(machine, "core_count", lambda: 4)
    settings = {"parallelism.default": parallelism}
    if master:
        settings["pystate.spark.master"] = master

    assert machine.check_cores(Configuration(settings)).health is health


def test_cores_of_the_real_time_engine():
    settings = {"parallelism.default": "2", "execution.engine": "real-time", "pystate.spark.master": "local[3,1]"}
    asked = "parallelism 2 needs 4 tasks at once, and 2 more for each further task of the real-time engine"
    assert machine.check_cores(Configuration(settings)) == fail(
        "cores", f"{asked}, and local[3,1] gives 3", "leave pystate.spark.master out, or local[4,1]"
    )


def test_who_may_speak_to_spark():
    assert list(machine.check_authentication(Configuration({}))) == [], "a local master of ours asks for a proof"
    (opened,) = machine.check_authentication(Configuration({"spark.authenticate": "false"}))
    assert opened.health is Health.WARN
    cluster = {"pystate.spark.master": "spark://10.0.0.1:7077"}
    (unset,) = machine.check_authentication(Configuration(cluster))
    assert unset.health is Health.WARN
    assert "whoever reaches its ports" in unset.text
    assert "spark.authenticate.secret in flink-conf.toml" in str(unset.hint)
    asking = {**cluster, "spark.authenticate": "true", "spark.authenticate.secret": "word"}
    (found,) = machine.check_authentication(Configuration(asking))
    assert found.health is Health.OK
    assert "word" not in found.text
    (shuffle,) = machine.check_authentication(Configuration({**asking, "execution.engine": "real-time"}))
    assert "streaming shuffle" in shuffle.text


def test_disks(monkeypatch, tmp_path):
    limit = 1 << 30
    for free, health in ((1 << 30, Health.OK), ((1 << 30) - 1, Health.WARN), (1 << 20, Health.FAIL)):
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda _, free=free: Usage(200 << 30, 0, free))
        first = next(machine.check_disks(PystateHome(tmp_path / "not" / "there"), [str(tmp_path)], limit))
        assert first.health is health
    found = list(machine.check_disks(PystateHome(tmp_path), [str(tmp_path), str(tmp_path)], limit))
    assert len(found) == len({finding.text for finding in found}), "each disk once"
    assert [finding.health for finding in machine.check_disks(PystateHome(tmp_path), [], 0)] == [Health.OK] * len(found)


def test_the_clock(monkeypatch):
    assert machine.check_clock().health is Health.OK
    monkeypatch.setattr(machine.time, "time", lambda: 1000.0)
    assert machine.check_clock().health is Health.FAIL


def test_storage_is_written_read_and_deleted(tmp_path):
    place = tmp_path / "a" / "b"
    (found, *_) = storage.check_storage(Configuration({"execution.checkpointing.dir": str(place)}))

    assert found.health is Health.OK
    assert list(tmp_path.iterdir()) == [], "the probe and the folders made for it are gone"


def test_storage_that_is_not_set_is_a_warning():
    found = list(storage.check_storage(Configuration()))

    assert [finding.health for finding in found] == [Health.WARN, Health.WARN]


@pytest.mark.parametrize("off", [-3600, 3600])
def test_a_storage_whose_clock_is_off(monkeypatch, tmp_path, off):
    from fsspec.implementations.local import LocalFileSystem

    moment = datetime.fromtimestamp(datetime.now(tz=timezone.utc).timestamp() + off, timezone.utc)
    monkeypatch.setattr(LocalFileSystem, "modified", lambda *_: moment)

    (found, *_) = storage.check_storage(Configuration({"execution.checkpointing.dir": str(tmp_path)}))

    assert found.health is Health.WARN
    assert "its clock is" in found.text


def test_a_storage_that_gives_back_something_else(monkeypatch, tmp_path):
    monkeypatch.setattr(storage, "_CONTENT", type("Content", (bytes,), {"__ne__": lambda *_: True})(b"x"))

    (found, *_) = storage.check_storage(Configuration({"execution.checkpointing.dir": str(tmp_path)}))

    assert found.health is Health.FAIL
    assert "gives back other bytes" in found.text


def test_the_log_in_of_a_storage_with_kerberos(monkeypatch, tmp_path, kdc):
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    kdc.add("doctor")
    keytab = kdc.export("doctor.keytab", "doctor")
    entry = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{entry}</configuration>")
    places = {
        "execution.checkpointing.dir": "hdfs://localhost:1/checkpoints",
        "execution.checkpointing.savepoint-dir": "hdfs://localhost:1/savepoints",
        "env.hadoop.conf.dir": str(tmp_path),
        "pystate.hdfs.client": "webhdfs",
        "pystate.hdfs.webhdfs-address": "localhost:1",
        "pystate.hdfs.max-retries": "0",
    }
    log_in = {"security.kerberos.login.keytab": str(keytab), "security.kerberos.login.principal": "doctor"}

    def kerberos_of(configuration):
        put_in_force(FileSystemSettings.of(configuration))
        return [finding for finding in storage.check_storage(configuration) if finding.name == "kerberos"]

    try:
        (found,) = kerberos_of(Configuration({**places, **log_in}))
        (refused,) = kerberos_of(Configuration(places))
    finally:
        put_in_force(None)

    assert found.health is Health.OK
    assert found.text.startswith(f"doctor@TESTS.PYSTATE, by security.kerberos.login.keytab = {keytab}")
    assert refused.health is Health.FAIL
    assert refused.hint.startswith("kinit")


def test_ports():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert service.check_port("127.0.0.1", taken.getsockname()[1]).health is Health.WARN
    assert service.check_port("127.0.0.1", 0).health is Health.OK
    assert service.check_port("no such host", 8081).health is Health.FAIL


def test_the_home(tmp_path):
    home = PystateHome(tmp_path / "new")
    assert service.check_home(home).health is Health.OK
    home.root.mkdir()
    home.token.write_text("x")
    home.token.chmod(0o644)
    assert service.check_home(home) == warn(
        "home", f"others on this machine may read {home.token}", f"chmod go= {home.token}"
    )


def test_wrong_calls_of_doctor(pystate):
    assert pystate("doctor", "x").code == 2
    assert pystate("doctor", "-D", "x").code == 2


def test_lines_for_a_pipe_and_for_a_terminal():
    finding = warn("cores", "too few of them " * 8, "get more")
    assert plain_lines(ok("x", "well")) == ["ok    x                  well"]
    assert plain_lines(finding)[1] == " " * 25 + "try: get more"
    for width in (40, 80, 160):
        for unicode in (True, False):
            lines = rendered(view(finding, width, unicode=unicode), width, "utf-8" if unicode else "ascii").splitlines()
            assert max(map(len, lines)) <= width
            assert lines[-1].strip() == "try: get more"
            assert unicode or all(line.isascii() for line in lines)


def test_the_verdict():
    findings: list[Finding] = [ok("a", ""), warn("b", "")]
    assert verdict(findings[:1]) == "All 1 checks are well."
    assert verdict(findings) == "1 of 2 checks warn."
    assert verdict([*findings, fail("c", "")]) == "1 of 3 checks failed, 1 warn."


def test_what_is_not_installed_is_neither_well_nor_wrong(pystate, monkeypatch):
    found = missing("delta", "not installed")
    monkeypatch.setattr("pystate_cli.doctor.connectors.check_connectors", lambda _: iter([found]))
    code, out, err = pystate("doctor")
    assert "none  delta              not installed" in out.splitlines()
    assert err.rstrip().endswith(" Not installed: delta.")
    assert verdict([ok("a", ""), missing("delta", "")]) == "All 1 checks are well. Not installed: delta."
    assert "–" in rendered(view(found, 80, unicode=True), 80, "utf-8")


def test_a_session_that_programs_make_is_looked_at_setting_by_setting(pystate, conf, monkeypatch):
    settings = {"spark.master": "local[2]", "spark.speculation": "true"}
    monkeypatch.setattr(present_session, "_settings", lambda: settings)
    code, out, _ = pystate("doctor", "--target", "session")
    assert code == 1
    lines = [line for line in out.splitlines() if "session" in line[6:23] or "spark-defaults.conf" in line]
    reason = "a second copy of an exchange would run the same epoch at the same time"
    assert lines[:4] == [
        "fail  session            spark.master is local[2]: parallelism 1 needs 4 cores (2 x parallelism + 2)",
        "                         try: spark.master local[4,4]   (in spark-defaults.conf)",
        f"fail  session            spark.speculation is true: {reason}",
        "                         try: spark.speculation false   (in spark-defaults.conf)",
    ]
    assert "warn  session            spark.python.worker" not in out
    assert "warn  session            spark.python.authenticate.socketTimeout is not set" in out
    assert not [line for line in out.splitlines() if line[6:23].strip() == "cores"], "those are of a session of ours"

    lacking = present_session.check_session(Configuration({"parallelism.default": "1"}))
    settings |= dict(str(finding.hint).split("   ")[0].split(" ", 1) for finding in lacking)
    (found,) = present_session.check_session(Configuration({"parallelism.default": "1"}))
    assert found.health is Health.OK


def test_a_spark_that_tells_no_settings_fails(monkeypatch):
    monkeypatch.setattr(present_session, "_SETTINGS", "raise SystemExit('no Java')")
    (found,) = present_session.check_session(Configuration({}))
    assert found == fail("session", "PySpark does not tell its settings: no Java", "look at Java and at SPARK_HOME")
