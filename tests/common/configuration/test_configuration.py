from __future__ import annotations

from pathlib import Path

import pytest

from pystate.common.configuration.conf_template import LIVE
from pystate.common.configuration.configuration import Configuration, Origin, OriginKind
from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingMode,
    CheckpointingOptions,
    ExternalizedCheckpointRetention,
)
from pystate.common.configuration.groups.execution_options import CoreOptions, PipelineOptions
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.configuration.loaded_configuration import (
    LoadedConfiguration,
    load_configuration,
    parse_dynamic_properties,
)
from pystate.common.errors import ConfigurationError, UsageError
from pystate.common.files.home import PystateHome
from pystate.common.time import Duration


@pytest.fixture(autouse=True)
def _nothing_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tester's own configuration out."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("PYSTATE_CONF_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def home(tmp_path: Path) -> PystateHome:
    return PystateHome(tmp_path / "home")


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "flink-conf.toml"
    path.write_text(text, "utf-8")
    return path


def _load(home: PystateHome, text: str, **overrides: str) -> LoadedConfiguration:
    folder = home.root.parent / "given"
    _write(folder, text)
    return load_configuration(folder, {key.replace("__", "."): value for key, value in overrides.items()}, home=home)


# -- the class


def test_an_option_that_is_not_set_has_its_default() -> None:
    configuration = Configuration()
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) is None
    assert configuration.get(CoreOptions.DEFAULT_PARALLELISM) == 1
    assert configuration.origin("parallelism.default").kind is OriginKind.DEFAULT
    assert not configuration.contains(CoreOptions.DEFAULT_PARALLELISM)


def test_options_are_set_and_read_by_their_types() -> None:
    configuration = Configuration()
    configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, 1_500).set(CoreOptions.DEFAULT_PARALLELISM, 4)
    configuration.set(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE, CheckpointingMode.AT_LEAST_ONCE)
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) == 1_500
    assert configuration.get(CoreOptions.DEFAULT_PARALLELISM) == 4
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE) is CheckpointingMode.AT_LEAST_ONCE
    assert configuration.origin("parallelism.default").kind is OriginKind.CODE
    assert configuration.to_dict() == {
        "execution.checkpointing.interval": "1500 ms",
        "parallelism.default": "4",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
    }


def test_setting_none_removes_the_value() -> None:
    configuration = Configuration().set(PipelineOptions.NAME, "words")
    configuration.set(PipelineOptions.NAME, None)
    assert not configuration.contains_key("pipeline.name")
    assert configuration.get(PipelineOptions.NAME) is None


def test_a_value_that_an_option_does_not_allow_is_refused_when_it_is_set() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration().set(CoreOptions.DEFAULT_PARALLELISM, 0)
    assert "'0'" in caught.value.message
    assert "parallelism.default" in caught.value.message
    assert "from 1 to 32768" in str(caught.value.hint)
    assert caught.value.where == "program"


def test_pyflinks_methods_work_on_keys() -> None:
    configuration = Configuration()
    configuration.set_string("my.text", "a").set_integer("my.number", 7)
    configuration.set_boolean("my.truth", True).set_float("my.part", 0.5)
    assert configuration.get_string("my.text", "b") == "a"
    assert configuration.get_integer("my.number", 1) == 7
    assert configuration.get_boolean("my.truth", False) is True
    assert configuration.get_float("my.part", 0.0) == 0.5
    assert configuration.get_string("other", "b") == "b"
    assert configuration.get_integer("other", 1) == 1
    assert configuration.get_boolean("other", False) is False
    assert configuration.get_float("other", 1.5) == 1.5
    assert configuration.contains_key("my.text")
    assert configuration.key_set() == {"my.text", "my.number", "my.truth", "my.part"}
    assert configuration.remove_config("my.text")
    assert not configuration.remove_config("my.text")
    target = {"before": "1"}
    configuration.add_all_to_dict(target)
    assert target == {"before": "1", "my.number": "7", "my.truth": "true", "my.part": "0.5"}


@pytest.mark.parametrize(
    "read",
    [
        lambda c: c.get_integer("my.text", 1),
        lambda c: c.get_boolean("my.text", True),
        lambda c: c.get_float("my.text", 1.0),
    ],
)
def test_reading_a_text_as_something_else_says_what_is_wrong(read) -> None:
    configuration = Configuration({"my.text": "abc"})
    with pytest.raises(ConfigurationError, match=r"'abc' of 'my\.text'"):
        read(configuration)


@pytest.mark.parametrize(
    "write",
    [
        lambda c: c.set_string("my.x", 5),
        lambda c: c.set_integer("my.x", "5"),
        lambda c: c.set_boolean("my.x", "true"),
        lambda c: c.set_float("my.x", "0.5"),
    ],
)
def test_a_value_of_another_type_is_refused(write) -> None:
    configuration = Configuration()
    with pytest.raises(ConfigurationError, match=r"my\.x"):
        write(configuration)
    assert not configuration.contains_key("my.x")


def test_a_program_that_misspells_a_key_is_told_so() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration().set_string("execution.checkpointing.intervall", "10 s")
    assert "execution.checkpointing.interval'" in str(caught.value.hint)


def test_an_older_name_and_todays_are_one_key_in_a_program() -> None:
    configuration = Configuration()
    configuration.set_string("state.checkpoints.dir", "/old")
    assert configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) == "/old"
    configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "/new")
    assert configuration.get_string("state.checkpoints.dir", "") == "/new"
    assert configuration.contains_key("state.checkpoints.dir")
    assert configuration.remove_config("state.checkpoints.dir")
    assert configuration.key_set() == set()


def test_add_all_puts_the_other_above_and_keeps_the_origins(home: PystateHome) -> None:
    loaded = _load(home, '"parallelism.default" = 2\n"pipeline.name" = "file"').configuration
    merged = loaded.copy().add_all(Configuration().set(CoreOptions.DEFAULT_PARALLELISM, 3))
    assert merged.get(CoreOptions.DEFAULT_PARALLELISM) == 3
    assert merged.origin("parallelism.default").kind is OriginKind.CODE
    assert merged.origin("pipeline.name").kind is OriginKind.FILE
    assert loaded.get(CoreOptions.DEFAULT_PARALLELISM) == 2


def test_add_all_with_a_prefix_puts_it_before_each_key() -> None:
    merged = Configuration().add_all(Configuration({"master.x": "1"}), "spark.")
    assert merged.to_dict() == {"spark.master.x": "1"}


def test_a_configuration_survives_being_a_dict() -> None:
    configuration = Configuration().set(CheckpointingOptions.CHECKPOINTING_INTERVAL, 10_000).set_string("my.own", "x")
    again = Configuration(configuration.to_dict())
    assert again == configuration
    assert again != Configuration()
    assert again.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) == 10_000


def test_durations_may_be_given_as_a_duration() -> None:
    configuration = Configuration().set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.of_minutes(1))  # type: ignore[arg-type]
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) == 60_000


# -- where the file is looked for


def test_the_places_are_searched_in_order(tmp_path: Path, home: PystateHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def source() -> Path | None:
        return load_configuration(home=home).source

    assert source() is None
    user = _write(tmp_path / "xdg" / "pystate", "")
    assert source() == user
    _write(Path("conf"), "")
    assert source() == Path("conf/flink-conf.toml")
    variable = _write(tmp_path / "variable", "")
    monkeypatch.setenv("PYSTATE_CONF_DIR", str(tmp_path / "variable"))
    assert source() == variable
    given = _write(tmp_path / "given", "")
    assert load_configuration(tmp_path / "given", home=home).source == given


def test_one_file_is_read_and_lies_over_pystate_s_own_settings_key_by_key(tmp_path: Path, home: PystateHome) -> None:
    _write(tmp_path / "xdg" / "pystate", '"parallelism.default" = 7')
    _write(Path("conf"), '"execution.checkpointing.interval" = "30 s"')
    built_in = load_configuration(tmp_path / "xdg" / "pystate", home=home).configuration
    configuration = load_configuration(home=home).configuration
    assert not configuration.contains(CoreOptions.DEFAULT_PARALLELISM), "of the file that was not read"
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) == 30_000
    assert configuration.origin("execution.checkpointing.interval").kind is OriginKind.FILE
    assert configuration.key_set() == set(LIVE)
    for key in LIVE.keys() - {"execution.checkpointing.interval"}:
        assert configuration.origin(key) == Origin(OriginKind.BUILT_IN)
        assert configuration.get_string(key, "") == built_in.get_string(key, "")
    assert configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY) == str(home.savepoints)


def test_an_older_name_in_the_file_counts_against_the_built_in_setting_too(home: PystateHome) -> None:
    configuration = _load(home, '"state.backend" = "rocksdb"').configuration
    assert configuration.get(StateBackendOptions.STATE_BACKEND) == "rocksdb"
    assert len(configuration.key_set()) == len(LIVE)


def test_an_empty_value_takes_a_built_in_setting_away(home: PystateHome) -> None:
    off = _load(home, '"execution.checkpointing.interval" = ""', execution__checkpointing__dir="").configuration
    assert off.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) is None
    assert off.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) is None
    with pytest.raises(ConfigurationError):
        _load(home, '"execution.checkpointing.timeout" = ""')


def test_a_barrier_on_every_epoch_stands_in_the_place_of_the_built_in_interval(home: PystateHome) -> None:
    interval = CheckpointingOptions.CHECKPOINTING_INTERVAL
    assert not _load(home, '"execution.checkpointing.every-epoch" = true').configuration.contains(interval)
    both = '"execution.checkpointing.every-epoch" = true\n"execution.checkpointing.interval" = "3 s"'
    assert _load(home, both).configuration.contains(interval)


def test_a_named_folder_without_a_file_is_an_error(
    tmp_path: Path, home: PystateHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path / "nowhere", home=home)
    assert caught.value.where == "--conf-dir"
    monkeypatch.setenv("PYSTATE_CONF_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(home=home)
    assert caught.value.where == "PYSTATE_CONF_DIR"


def test_without_any_file_the_settings_of_the_distribution_are_in_force(home: PystateHome) -> None:
    loaded = load_configuration(home=home)
    configuration = loaded.configuration
    assert loaded.source is None
    assert loaded.notices == []
    assert configuration.key_set() == set(LIVE)
    assert configuration.get(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER) == 5
    assert configuration.get(StateBackendOptions.STATE_BACKEND) == "hashmap"
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) == 10_000
    assert configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) == str(home.checkpoints)
    assert configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY) == str(home.savepoints)
    assert (
        configuration.get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION)
        is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    )


# -- what the file may say


@pytest.mark.parametrize(
    "text",
    [
        '"execution.checkpointing.interval" = "10 s"',
        'execution.checkpointing.interval = "10 s"',
        '[execution.checkpointing]\ninterval = "10 s"',
        '[execution]\ncheckpointing = { interval = "10s" }',
        '["execution.checkpointing"]\ninterval = 10000',
        '[execution]\n"checkpointing.interval" = "10 s"',
    ],
)
def test_keys_may_be_flat_dotted_or_in_tables(home: PystateHome, text: str) -> None:
    configuration = _load(home, text).configuration
    assert configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) == 10_000


def test_truth_values_and_numbers_need_no_quotes_but_may_have_them(home: PystateHome) -> None:
    bare = _load(home, '"pipeline.auto-generate-uids" = false\n"parallelism.default" = 3').configuration
    quoted = _load(home, '"pipeline.auto-generate-uids" = "false"\n"parallelism.default" = "3"').configuration
    assert bare == quoted
    assert bare.get(PipelineOptions.AUTO_GENERATE_UIDS) is False
    assert bare.get(CoreOptions.DEFAULT_PARALLELISM) == 3


def test_the_command_line_goes_above_the_file_and_each_value_knows_its_place(home: PystateHome) -> None:
    text = '"pipeline.name" = "a"\n[parallelism]\ndefault = 2\n[execution.checkpointing]\ninterval = "10 s"\n'
    loaded = _load(home, text, parallelism__default="5")
    configuration = loaded.configuration
    assert configuration.get(CoreOptions.DEFAULT_PARALLELISM) == 5
    assert str(configuration.origin("parallelism.default")) == "-D parallelism.default"
    assert configuration.origin("parallelism.default").kind is OriginKind.COMMAND_LINE
    file = str(loaded.source)
    assert str(configuration.origin("execution.checkpointing.interval")) == f"{file}, [execution.checkpointing] interval"
    assert str(configuration.origin("pipeline.name")) == f'{file}, "pipeline.name"'


def test_the_home_takes_the_place_of_its_variable_in_the_file_only(home: PystateHome) -> None:
    configuration = _load(
        home,
        '"execution.checkpointing.dir" = "file://${PYSTATE_HOME}/c"\n"spark.local.dir" = "${PYSTATE_HOME}/${env:X}"',
        pipeline__name="${PYSTATE_HOME}",
    ).configuration
    assert configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) == f"file://{home.root}/c"
    assert configuration.get_string("spark.local.dir", "") == f"{home.root}/${{env:X}}"
    assert configuration.get(PipelineOptions.NAME) == "${PYSTATE_HOME}"


def test_another_variable_is_an_error(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError, match=r"\$\{HOME\}"):
        _load(home, '"execution.checkpointing.dir" = "${HOME}/c"')


def test_older_names_are_read_with_a_notice(home: PystateHome) -> None:
    loaded = _load(home, '"state.backend" = "filesystem"', state__savepoints__dir="/s")
    values = loaded.configuration.to_dict()
    assert values["state.backend.type"] == "filesystem"
    assert values["execution.checkpointing.savepoint-dir"] == "/s"
    assert len(loaded.notices) == 2
    assert "'state.backend' is read as 'state.backend.type'" in loaded.notices[0]
    assert "-D state.savepoints.dir" in loaded.notices[1]


def test_an_older_name_beside_todays_is_an_error_within_one_place_only(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError, match=r"one option"):
        _load(home, '"execution.checkpointing.dir" = "/a"\n"state.checkpoints.dir" = "/b"')
    loaded = _load(home, '"execution.checkpointing.dir" = "/a"', state__checkpoints__dir="/b")
    assert loaded.configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) == "/b"


def test_one_key_flat_and_in_a_table_is_an_error(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError, match=r"'parallelism\.default' is set twice"):
        _load(home, '"parallelism.default" = 1\n[parallelism]\ndefault = 2')


def test_keys_of_spark_are_handed_on(home: PystateHome) -> None:
    configuration = _load(
        home, '[spark.sql]\n"shuffle.partitions" = 4\nadaptive.enabled = true\n', spark__ui__enabled="false"
    ).configuration
    assert configuration.spark_properties() == {
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "true",
        "spark.ui.enabled": "false",
    }


def test_sparks_own_name_of_the_master_is_read_as_ours(home: PystateHome) -> None:
    loaded = _load(home, "", spark__master="local[3,4]")
    assert loaded.configuration.get(SparkOptions.MASTER) == "local[3,4]"
    assert loaded.configuration.spark_properties() == {}
    assert len(loaded.notices) == 1


# -- errors


def test_an_unknown_key_is_an_error_with_the_nearest_one_and_the_place(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, '[execution.checkpointing]\nintervall = "10 s"')
    assert "'execution.checkpointing.intervall'" in caught.value.message
    assert "'execution.checkpointing.interval'" in str(caught.value.hint)
    assert str(caught.value.where).endswith("flink-conf.toml, [execution.checkpointing] intervall")


def test_an_unknown_key_on_the_command_line_is_an_error(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, "", my__own="1")
    assert caught.value.where == "-D my.own"


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.unaligned.forced",
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
        "execution.checkpointing.file-merging.max-file-size",
        "state.backend.rocksdb.thread.num",
        "state.backend.rocksdb.metrics.no-such-metric",
        "taskmanager.numberOfTaskSlots",
    ],
)
def test_a_key_of_flinks_that_means_nothing_here_is_reported_with_the_reason(home: PystateHome, key: str) -> None:
    loaded = _load(home, f'"{key}" = "1"')
    (notice,) = loaded.notices
    assert notice.startswith(f"{key!r} has no effect: ")
    assert "flink-conf.toml" in notice
    assert not loaded.configuration.contains_key(key)


def test_a_bad_value_is_an_error_with_key_value_allowed_and_the_place(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, '[execution.checkpointing]\nmode = "TWICE"')
    assert "'TWICE'" in caught.value.message
    assert "'execution.checkpointing.mode'" in caught.value.message
    assert "EXACTLY_ONCE or AT_LEAST_ONCE" in str(caught.value.hint)
    assert "[execution.checkpointing] mode" in str(caught.value.where)


@pytest.mark.parametrize(
    "line",
    [
        '"execution.checkpointing.interval" = "banana"',
        '"execution.checkpointing.interval" = 0',
        '"execution.checkpointing.interval" = 1.5',
        '"execution.checkpointing.interval" = ["10 s"]',
        '"execution.checkpointing.interval" = 2026-01-01',
        '"parallelism.default" = true',
        '"parallelism.default" = 40000',
        '"pipeline.auto-generate-uids" = 1',
        '"state.backend.type" = "papyrus"',
        '"execution.checkpointing.data-inline-threshold" = "20 lb"',
    ],
)
def test_values_that_are_not_allowed_are_refused(home: PystateHome, line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, line)
    assert str(caught.value.hint).startswith("allowed: ")
    assert "flink-conf.toml" in str(caught.value.where)


@pytest.mark.parametrize(
    ("line", "near"),
    [('"state.backend.type" = "rocksbd"', "rocksdb"), ('"execution.checkpointing.storage" = "filesytem"', "filesystem")],
)
def test_a_misspelt_value_is_answered_with_the_nearest(home: PystateHome, line: str, near: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, line)
    assert str(caught.value.hint).endswith(f"; did you mean {near!r}?")


@pytest.mark.parametrize(
    "text",
    [
        'state.backend = "hashmap"\nstate.backend.incremental = true',
        'state.backend.incremental = true\nstate.backend = "hashmap"',
        '[state]\nbackend = "hashmap"\n[state.backend]\nincremental = true',
        '[state.backend]\nincremental = true\n[state]\nbackend = "hashmap"',
        '[state]\nbackend = "hashmap"\nbackend.incremental = true',
        '[state]\nbackend.type = "hashmap"\n[state.backend]\nincremental = true',
        "[state.backend]\n[state.backend]\n",
    ],
)
def test_a_key_that_is_value_and_table_is_answered_with_the_advice_to_quote(home: PystateHome, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, text)
    assert '"state.backend" = "hashmap"' in str(caught.value.hint)
    assert "(at " in caught.value.message


def test_the_advice_itself_is_sound_toml(home: PystateHome) -> None:
    configuration = _load(home, '"state.backend" = "hashmap"\n"state.checkpoints.dir" = "/a"').configuration
    assert configuration.get(StateBackendOptions.STATE_BACKEND) == "hashmap"


def test_a_file_that_is_no_toml_is_an_error_with_the_line(home: PystateHome) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(home, "[execution\n")
    assert "line 1" in caught.value.message
    assert caught.value.hint is None


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path, home: PystateHome) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "flink-conf.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="can't be read"):
        load_configuration(tmp_path / "given", home=home)


# -- -D


def test_dynamic_properties_are_cut_at_the_first_equals_sign() -> None:
    assert parse_dynamic_properties(["a.b=1", " c = x=y ", "d="]) == {"a.b": "1", "c": "x=y", "d": ""}


def test_the_later_of_two_dynamic_properties_counts() -> None:
    assert parse_dynamic_properties(["a=1", "b=2", "a=3"]) == {"b": "2", "a": "3"}


@pytest.mark.parametrize("argument", ["foo", "", "=1", "  =1"])
def test_a_dynamic_property_without_key_or_equals_sign_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError, match="key=value"):
        parse_dynamic_properties([argument])


def test_a_configuration_is_shown_as_pyflink_2_3_shows_it() -> None:
    configuration = Configuration().set_string("a.b", "c").set_integer("i", 5).set_boolean("t", True).set_float("f", 1.5)
    configuration.set_string("some.password", "geheim")
    assert str(configuration) == "{a.b=c, i=5, t=true, f=1.5, some.password=******}"
    assert str(Configuration()) == "{}"
