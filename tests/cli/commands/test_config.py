"""`pystate config` and `pystate config import`."""

from __future__ import annotations

import importlib
import json

import pytest
import tomli

from pystate.common.configuration.conf_template import LIVE
from pystate.common.configuration.configuration import OriginKind
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.configuration.sensitive_keys import HIDDEN
from pystate.common.files.home import PystateHome
from pystate_cli.config.flink_config import read_flat, read_flink_file, sort_settings
from pystate_cli.views.setting_list import SETTINGS, SettingRow

INTERVAL = "execution.checkpointing.interval"


@pytest.fixture
def conf(tmp_path):
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "flink-conf.toml").write_text(
        '"parallelism.default" = 4\n[execution.checkpointing]\ninterval = "30 s"\ndir = "${PYSTATE_HOME}/ck"\n'
    )
    return folder / "flink-conf.toml"


def settings(pystate, *words):
    outcome = pystate("config", "--json", *words)
    assert outcome.code == 0, outcome.err
    return {row["key"]: row for row in json.loads(outcome.out)["settings"]}


def test_each_value_says_where_it_comes_from(pystate, conf, own_home):
    found = settings(pystate, "-D", "execution.checkpointing.num-retained=3")

    assert found[INTERVAL] == {
        "key": INTERVAL,
        "value": "30 s",
        "default": None,
        "isSet": True,
        "origin": "file",
        "place": "conf/flink-conf.toml, [execution.checkpointing] interval",
    }
    assert found["execution.checkpointing.dir"]["value"] == f"{own_home}/ck"
    assert found["parallelism.default"]["place"] == 'conf/flink-conf.toml, "parallelism.default"'
    retained = found["execution.checkpointing.num-retained"]
    assert (retained["value"], retained["origin"]) == ("3", "command line")
    assert retained["place"] == "-D execution.checkpointing.num-retained"
    assert found["execution.checkpointing.timeout"]["origin"] == "default"
    assert found["execution.checkpointing.timeout"]["value"] == "10 min"


def test_the_restart_strategy_that_is_in_force_is_told_where_none_is_set(pystate, conf):
    strategy = "restart-strategy.type"

    found = settings(pystate)[strategy]
    assert (found["value"], found["place"], found["isSet"]) == ("exponential-delay", "default with checkpointing", False)
    assert settings(pystate, "-D", f"{strategy}=fixed-delay")[strategy]["value"] == "fixed-delay"
    conf.write_text('[execution.checkpointing]\ninterval = ""\n')
    found = settings(pystate)[strategy]
    assert (found["value"], found["place"]) == ("none", "default without checkpointing")


def test_set_only(pystate, conf):
    found = settings(pystate, "--set-only")
    assert set(found) == {"parallelism.default", *LIVE}
    assert {key for key, row in found.items() if row["origin"] == "built-in"} == {
        "state.backend.type",
        "execution.checkpointing.savepoint-dir",
        "execution.checkpointing.externalized-checkpoint-retention",
        "execution.checkpointing.tolerable-failed-checkpoints",
    }


def test_one_key_in_a_pipe_is_its_value(pystate, conf):
    assert pystate("config", INTERVAL) == (0, "30 s\n", "")
    assert pystate("config", "execution.savepoint.path").out == "\n", "an older name is read as today's"


@pytest.mark.parametrize("key", ["s3.secret-key", "spark.hadoop.fs.s3a.secret.key"])
def test_one_key_in_a_pipe_is_no_secret(pystate, conf, key):
    assert pystate("config", "-D", f"{key}=hunter2hunter2hunter2hunter2hunter2", key) == (0, f"{HIDDEN}\n", "")


def test_the_beginning_of_keys_means_all_below(pystate, conf):
    lines = pystate("config", "execution.checkpointing", "--set-only").out.splitlines()

    assert [line.split("\t")[0] for line in lines] == [key for key in LIVE if key.startswith("execution.checkpointing")]
    assert lines[0].split("\t")[1:] == ["30 s", "conf/flink-conf.toml, [execution.checkpointing] interval"]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("execution.checkpointing.intervall", f"  try: did you mean '{INTERVAL}'?"),
        ("taskmanager.numberOfTaskSlots", "is an option of Flink that has no effect here"),
        ("zzz", "error: There is no option 'zzz'."),
    ],
)
def test_unknown_keys(pystate, conf, key, sentence):
    code, out, err = pystate("config", key)

    assert (code, out) == (1, "")
    assert sentence in err


def test_other_places_of_the_file(pystate, conf, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "flink-conf.toml").write_text('"parallelism.default" = 7\n')
    assert settings(pystate, "--conf-dir", str(elsewhere))["parallelism.default"]["value"] == "7"

    monkeypatch.setenv("PYSTATE_CONF_DIR", str(elsewhere))
    source = json.loads(pystate("config", "--json").out)["source"]
    assert source == f"{elsewhere}/flink-conf.toml (PYSTATE_CONF_DIR)"
    monkeypatch.delenv("PYSTATE_CONF_DIR")
    conf.unlink()
    assert json.loads(pystate("config", "--json").out)["source"].startswith("pystate's own settings (built-in);")


def test_a_terminal_gets_a_table_and_the_whole_of_one_option(pystate, conf, monkeypatch):
    monkeypatch.setattr("pystate_cli.console.console.Console.is_terminal", True)

    code, out, err = pystate("config", "--set-only")
    below = "over pystate's own settings (built-in), of which 4 are in force"
    assert (code, err) == (0, f"\nread from conf/flink-conf.toml, {below}\n")
    assert out.split()[0] == "Key"
    assert {INTERVAL, "execution.checkpointing.dir", "parallelism.default"} < {
        line.split()[0] for line in out.splitlines()[2:]
    }
    assert max(map(len, out.splitlines())) <= 80

    out = pystate("config", INTERVAL).out
    assert out.splitlines()[:3] == [
        INTERVAL,
        "  value    30 s",
        "  from     conf/flink-conf.toml, [execution.checkpointing] interval",
    ]
    assert "  allowed  a duration such as" in out


def test_secrets_are_not_shown():
    row = SettingRow("fs.s3a.secret-key", "abc", True, "file", "", None, "", "")
    assert row.shown == SETTINGS.json_object(row)["value"] == HIDDEN
    assert SettingRow("rest.token-file", "/x", True, "file", "", None, "", "").shown == "/x"


def test_wrong_calls_of_config(pystate, tmp_path):
    assert pystate("config", "--conf-dir", "nowhere").code == 1
    assert pystate("config", "a", "b").code == 2
    assert pystate("config", "import").code == 2
    assert pystate("config", "-D", "x").code == 2


FLAT = """
# from a Flink of 1.17
state.backend: rocksdb
state.checkpoints.dir: hdfs:///flink/checkpoints   # where they go
execution.checkpointing.interval: 30s
execution.checkpointing.interval: 60s
taskmanager.numberOfTaskSlots: 4
restart-strategy.type: banana
a line without a colon
no.blank:after
empty.value:
our.own: 1
"""


def test_the_flat_file_is_read_by_flinks_rules():
    found = read_flat(FLAT)
    assert found.unread == ((9, "a"), (10, "no.blank"), (11, "empty.value"))
    assert found.settings == {
        "state.backend": "rocksdb",
        "state.checkpoints.dir": "hdfs:///flink/checkpoints",
        "execution.checkpointing.interval": "60s",
        "taskmanager.numberOfTaskSlots": "4",
        "restart-strategy.type": "banana",
        "our.own": "1",
    }


def test_import_writes_a_file_that_pystate_reads(pystate, tmp_path, own_home):
    (tmp_path / "flink-conf.yaml").write_text(FLAT)

    code, out, err = pystate("config", "import", "flink-conf.yaml")

    target = tmp_path / "conf" / "flink-conf.toml"
    assert (code, out) == (0, f"{target}\n")
    loaded = load_configuration(target.parent, home=PystateHome(own_home))
    assert loaded.notices == []
    file = {key: value for key, value, origin in loaded.configuration.items() if origin.kind is OriginKind.FILE}
    assert file == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.dir": "hdfs:///flink/checkpoints",
        "execution.checkpointing.interval": "1 min",
    }
    assert err.splitlines() == [
        "warning: line 9 (a ...) is left out: it is no `KEY: VALUE`.",
        "warning: line 10 (no.blank ...) is left out: it is no `KEY: VALUE`.",
        "warning: line 11 (empty.value ...) is left out: it is no `KEY: VALUE`.",
        "3 settings are taken over.",
        "'state.backend' is written as 'state.backend.type'.",
        "'state.checkpoints.dir' is written as 'execution.checkpointing.dir'.",
        "warning: 'taskmanager.numberOfTaskSlots' has no effect here: Spark starts and places the processes; "
        "pystate.spark.master and Spark's own keys say how.",
        "warning: 'restart-strategy.type' is left out: 'banana' is not allowed here; allowed: none, fixed-delay, "
        "failure-rate or exponential-delay.",
        "warning: 'our.own' is left out: pystate does not know it.",
        "It is in force for commands given in this folder; `pystate config --set-only` shows what they see. pystate's own "
        "settings stay below it: execution.checkpointing.savepoint-dir = ${PYSTATE_HOME}/savepoints, "
        "execution.checkpointing.externalized-checkpoint-retention = DELETE_ON_CANCELLATION, "
        "execution.checkpointing.tolerable-failed-checkpoints = 5.",
    ]
    assert settings(pystate)[INTERVAL]["value"] == "1 min"

    code, _, err = pystate("config", "import", "flink-conf.yaml")
    assert (code, err.splitlines()[0]) == (2, "error: There is a file of that name already.")
    assert pystate("config", "import", "flink-conf.yaml", "--force", "--json").code == 0
    out = pystate("config", "import", "flink-conf.yaml", "-o", "-").out
    assert tomli.loads(out)["state.backend.type"] == "rocksdb"


def test_import_says_how_a_file_that_is_not_in_force_becomes_so(pystate, tmp_path, conf, monkeypatch):
    (tmp_path / "flink-conf.yaml").write_text("parallelism.default: 3\n")

    def told(*words):
        outcome = pystate("config", "import", "flink-conf.yaml", "--force", *words)
        assert outcome.code == 0, outcome.err
        return outcome.err.splitlines()[-1]

    elsewhere = tmp_path / "elsewhere"
    assert told("-o", "elsewhere/flink-conf.toml") == (
        "It is not in force here, conf/flink-conf.toml is: "
        f"--conf-dir {elsewhere} or PYSTATE_CONF_DIR={elsewhere} makes it so."
    )
    assert "only a file of the name flink-conf.toml is read" in told("-o", "other.toml")
    monkeypatch.setenv("PYSTATE_CONF_DIR", str(elsewhere))
    assert told("-o", "elsewhere/flink-conf.toml").startswith(
        f"It is in force wherever {elsewhere} is the folder of settings;"
    )
    assert "elsewhere/flink-conf.toml is: " in told("-o", "conf/flink-conf.toml")
    monkeypatch.setenv("PYSTATE_CONF_DIR", str(tmp_path / "empty"))
    assert "PYSTATE_CONF_DIR is set: There is no flink-conf.toml in" in told()
    monkeypatch.delenv("PYSTATE_CONF_DIR")
    conf.unlink()
    assert "It is not in force here, pystate's own settings are: " in told("-o", "elsewhere/flink-conf.toml")


NESTED = """
state:
  backend:
    type: hashmap
execution:
  checkpointing:
    interval: 3min
    num-retained: 5
    local-backup:
      dirs: [/a, /b]
    create-subdir: on
restart-strategy: {type: fixed-delay, fixed-delay: {attempts: 3}}
env.java.home:
"""


def test_the_nested_file_of_flink_2(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "config.yaml"
    path.write_text(NESTED)

    assert read_flink_file(path).settings == {
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": "3min",
        "execution.checkpointing.num-retained": "5",
        "execution.checkpointing.local-backup.dirs": "/a;/b",
        "execution.checkpointing.create-subdir": "on",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
    }


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "a: [{b: 1}]"])
def test_a_config_yaml_that_is_none(tmp_path, pystate, text):
    pytest.importorskip("yaml")
    (tmp_path / "config.yaml").write_text(text)

    assert pystate("config", "import", "config.yaml").code == 1


def test_without_a_yaml_parser_the_extra_is_named(tmp_path, pystate, monkeypatch):
    (tmp_path / "config.yaml").write_text(NESTED)
    real = importlib.import_module

    def missing(name, *rest):
        if name == "yaml":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr("pystate_cli.config.flink_config.importlib.import_module", missing)

    code, _, err = pystate("config", "import", "config.yaml")

    assert code == 1
    assert err.endswith("  try: pip install 'pystate-spark[yaml]'\n")


def test_files_of_any_other_name_are_known_by_their_content(tmp_path):
    flat = tmp_path / "my.yaml"
    flat.write_text("parallelism.default: 2\n")
    assert read_flink_file(flat).settings == {"parallelism.default": "2"}


def test_what_could_be_a_secret_in_a_line_that_is_left_out_is_not_said(tmp_path, pystate):
    (tmp_path / "flink-conf.yaml").write_text("s3.secret-key=hush\n---\n# no line\n")

    code, out, err = pystate("config", "import", "flink-conf.yaml", "--json")

    assert code == 0
    assert json.loads(out)["unread"] == [{"line": 1, "beginsWith": "s3.secret-key"}]
    assert "warning: line 1 (s3.secret-key ...) is left out" in err
    assert "hush" not in out + err


def test_two_names_of_one_option():
    result = sort_settings({"state.backend.type": "hashmap", "state.backend": "rocksdb"})

    assert result.taken == {"state.backend.type": "hashmap"}
    assert result.refused == {"state.backend": "'state.backend.type' is set, too, and is the newer name"}


def test_wrong_files(pystate, tmp_path):
    code, _, err = pystate("config", "import", "nosuch.yaml")
    assert (code, err.splitlines()[0]) == (2, "error: The file can't be read: No such file or directory.")
    assert pystate("config", "import", tmp_path).code == 2


_NAMES = "abcdefghij"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "a: " + "{b: " * 20_000,
        "\n".join(" " * depth + "a:" for depth in range(500)),
        "a: &a {b: *a}",
        "a: &a {x: 1}\n"
        + "".join(
            f"{c}: &{c} {{{', '.join(f'{n}: *{b}' for n in _NAMES)}}}\n" for b, c in zip(_NAMES, _NAMES[1:], strict=False)
        ),
        "a: !!python/object/apply:os.system [id]",
    ],
    ids=["lists", "maps", "blocks", "itself", "aliases", "code"],
)
def test_a_hostile_config_yaml_is_refused(text, tmp_path, pystate):
    (tmp_path / "config.yaml").write_text(text)
    code, _, err = pystate("config", "import", tmp_path / "config.yaml", "-o", "-")
    assert code != 0
    assert err.startswith("error: ")
    assert "pystate itself" not in err


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "1" * 9_999, ".".join("a" * 5_000) + " = 1"])
def test_a_hostile_toml_is_refused(text, tmp_path, pystate):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text(text)
    code, _, err = pystate("config")
    assert code != 0
    assert "is not TOML" in err
