from __future__ import annotations

from enum import Enum

import pytest

from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions, RestartStrategyType
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.configuration.option_types import (
    BooleanType,
    DurationType,
    EnumType,
    IntegerType,
    MemorySizeType,
    NameOrFactoryType,
    PortRangeType,
    StringType,
    ValueType,
    toml_string,
)
from pystate.common.configuration.options import ALL_OPTIONS, OPTION_GROUPS, canonical_key, is_known, nearest_key, options_of
from pystate.common.time import Duration, Time

try:
    import tomllib as toml  # a second reader than the one the product uses
except ModuleNotFoundError:
    import tomli as toml


class _Colour(Enum):
    RED = "RED"
    GREEN = "green"


def test_every_option_of_a_group_is_in_the_registry_under_its_key() -> None:
    options = [option for group in OPTION_GROUPS for option in options_of(group)]
    assert len(options) == len(ALL_OPTIONS)
    assert all(ALL_OPTIONS[option.key] is option for option in options)


def test_no_key_and_no_older_name_is_used_twice() -> None:
    names = [name for option in ALL_OPTIONS.values() for name in (option.key, *option.fallback_keys)]
    assert len(names) == len(set(names))


def test_a_default_survives_being_written_and_read() -> None:
    for option in ALL_OPTIONS.values():
        if option.default is not None:
            assert option.type.parse(option.type.format(option.default)) == option.default, option.key
            written = toml.loads(f"x = {option.type.to_toml(option.default)}")["x"]
            text = str(written).lower() if isinstance(written, bool) else str(written)
            assert option.type.parse(text) == option.default, option.key


def test_every_description_is_made_of_sentences() -> None:
    for option in ALL_OPTIONS.values():
        assert option.description.endswith("."), option.key
        assert "  " not in option.description, option.key


@pytest.mark.parametrize(
    ("key", "default"),
    [  # Flink 2.3.0
        ("execution.checkpointing.interval", None),
        ("execution.checkpointing.timeout", 10 * 60_000),
        ("execution.checkpointing.min-pause", 0),
        ("execution.checkpointing.max-concurrent-checkpoints", 1),
        ("execution.checkpointing.tolerable-failed-checkpoints", 0),
        ("execution.checkpointing.externalized-checkpoint-retention", "NO_EXTERNALIZED_CHECKPOINTS"),
        ("execution.checkpointing.num-retained", 1),
        ("execution.checkpointing.dir", None),
        ("execution.checkpointing.savepoint-dir", None),
        ("execution.checkpointing.create-subdir", True),
        ("execution.checkpointing.data-inline-threshold", 20 * 1024),
        ("execution.checkpointing.mode", "EXACTLY_ONCE"),
        ("execution.state-recovery.path", None),
        ("execution.state-recovery.ignore-unclaimed-state", False),
        ("execution.state-recovery.claim-mode", "NO_CLAIM"),
        ("execution.checkpointing.storage", None),
        ("state.backend.type", "hashmap"),
        ("state.backend.async", True),
        ("pystate.checkpoint.jobmanager.max-state-size", 5 * 1024 * 1024),
        ("restart-strategy.type", None),
        ("restart-strategy.fixed-delay.attempts", 1),
        ("restart-strategy.fixed-delay.delay", 1_000),
        ("parallelism.default", 1),
        ("pipeline.max-parallelism", -1),
        ("pipeline.auto-generate-uids", True),
        ("web.checkpoints.history", 10),
        ("rest.port", 8081),
        ("execution.target", None),
        ("python.files", None),
        ("python.archives", None),
        ("client.timeout", 60_000),
    ],
)
def test_the_defaults_are_flinks(key: str, default: object) -> None:
    assert ALL_OPTIONS[key].default == default


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state.backend", "state.backend.type"),
        ("state.checkpoint-storage", "execution.checkpointing.storage"),
        ("state.checkpoints.dir", "execution.checkpointing.dir"),
        ("state.savepoints.dir", "execution.checkpointing.savepoint-dir"),
        ("state.checkpoints.num-retained", "execution.checkpointing.num-retained"),
        ("state.storage.fs.memory-threshold", "execution.checkpointing.data-inline-threshold"),
        ("execution.savepoint.path", "execution.state-recovery.path"),
        ("execution.savepoint.ignore-unclaimed-state", "execution.state-recovery.ignore-unclaimed-state"),
        ("execution.savepoint-restore-mode", "execution.state-recovery.claim-mode"),
        ("execution.checkpointing.dir", "execution.checkpointing.dir"),
        ("made.up", "made.up"),
    ],
)
def test_flinks_older_names_lead_to_todays(old: str, new: str) -> None:
    assert canonical_key(old) == new


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("execution.checkpoint.interval", "execution.checkpointing.interval"),
        ("Execution.Checkpointing.Min_Pause", "execution.checkpointing.min-pause"),
        ("state.backends", "state.backend.type"),
        ("paralelism.default", "parallelism.default"),
        ("zzz.savepoint-dir", "execution.checkpointing.savepoint-dir"),
        ("qqqqqqqqqqqqqqq", None),
    ],
)
def test_the_nearest_key_of_a_misspelt_one_is_found(wrong: str, right: str | None) -> None:
    assert not is_known(wrong)
    assert nearest_key(wrong) == right


def test_keys_of_spark_are_known_but_not_the_bare_prefix() -> None:
    assert is_known("spark.sql.shuffle.partitions")
    assert not is_known("spark.")
    assert not is_known("sparkle.x")


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (StringType(), " kept as it is ", " kept as it is "),
        (BooleanType(), "TRUE", True),
        (BooleanType(), "false", False),
        (IntegerType(), "-7", -7),
        (IntegerType(1, 5, special=-1), "-1", -1),
        (IntegerType(1, 5, special=-1), "5", 5),
        (DurationType(), "10 s", 10_000),
        (DurationType(), "250", 250),
        (MemorySizeType(), "20 kb", 20_480),
        (MemorySizeType(maximum=1 << 20), "1mb", 1 << 20),
        (EnumType(_Colour), "red", _Colour.RED),
        (EnumType(_Colour, {"rouge": "RED"}), "Rouge", _Colour.RED),
        (NameOrFactoryType(["one"]), " ONE ", "one"),
        (NameOrFactoryType(["one"]), "package.module:Class", "package.module:Class"),
        (NameOrFactoryType(["one"]), "package.Class", "package.Class"),
        (NameOrFactoryType(["one"]), "module:Outer.Inner", "module:Outer.Inner"),
    ],
)
def test_texts_are_read(value_type: ValueType, text: str, value: object) -> None:
    assert value_type.parse(text) == value
    assert value_type.parse(value_type.format(value)) == value


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (NameOrFactoryType(["one"]), "two"),
        (NameOrFactoryType(["one"]), ""),
        (NameOrFactoryType(["one"]), "a..b"),
        (NameOrFactoryType(["one"]), "a:b:c"),
        (NameOrFactoryType(["one"]), "a.b:1"),
        (BooleanType(), "yes"),
        (BooleanType(), "1"),
        (IntegerType(), "1.5"),
        (IntegerType(), ""),
        (IntegerType(minimum=1), "0"),
        (IntegerType(1, 5, special=-1), "-2"),
        (IntegerType(maximum=5), "6"),
        (DurationType(), "banana"),
        (DurationType(minimum=10), "9 ms"),
        (MemorySizeType(), "20 parsecs"),
        (MemorySizeType(maximum=1 << 20), "2 mb"),
        (EnumType(_Colour), "blue"),
    ],
)
def test_texts_that_are_not_allowed_are_refused(value_type: ValueType, text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - int() says it in its own words
        value_type.parse(text)


@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (StringType(), 5),
        (BooleanType(), 1),
        (BooleanType(), "true"),
        (IntegerType(), True),
        (IntegerType(), 1.5),
        (IntegerType(maximum=5), 6),
        (DurationType(), "10 s"),
        (DurationType(), -1),
        (DurationType(minimum=10), 9),
        (MemorySizeType(), True),
        (MemorySizeType(), -1),
        (EnumType(_Colour), "blue"),
        (EnumType(_Colour), 3),
    ],
)
def test_values_that_are_not_allowed_are_refused(value_type: ValueType, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        value_type.format(value)


def test_durations_are_taken_as_milliseconds_and_as_both_classes() -> None:
    interval = CheckpointingOptions.CHECKPOINTING_INTERVAL.type
    assert interval.format(10_000) == interval.format(Duration.of_seconds(10)) == interval.format(Time.seconds(10)) == "10 s"


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 20 << 10, (1 << 20) + 1, 64 << 20, 3 << 30])
def test_sizes_survive_being_written_and_read(size: int) -> None:
    assert MemorySizeType().parse(MemorySizeType().format(size)) == size


def test_flinks_other_names_of_values_are_accepted() -> None:
    backend, strategy = StateBackendOptions.STATE_BACKEND.type, RestartStrategyOptions.RESTART_STRATEGY.type
    for name in ("hashmap", "rocksdb", "memory", "filesystem", "jobmanager"):
        assert backend.parse(f" {name.upper()}") == name
    assert {strategy.parse(name) for name in ("none", "off", "disable")} == {RestartStrategyType.NONE}
    assert strategy.parse("fixeddelay") is strategy.parse("Fixed-Delay") is RestartStrategyType.FIXED_DELAY


@pytest.mark.parametrize("text", ["", 'a "quoted" \\ path', "tab\there", "line\nbreak", "\x00\x1f\x7f", "é 🙂 \ufeff"])
def test_any_text_survives_a_toml_file(text: str) -> None:
    assert toml.loads(f"x = {toml_string(text)}")["x"] == text


@pytest.mark.parametrize(
    ("text", "ports"), [("0", range(1)), ("50100", range(50_100, 50_101)), ("50100-50200", range(50_100, 50_201))]
)
def test_ports_are_a_number_or_a_range(text: str, ports: range) -> None:
    assert PortRangeType().parse(text) == ports
    assert PortRangeType().format(ports) == PortRangeType().format(text) == text


@pytest.mark.parametrize("text", ["", "-", "a", "0-10", "50200-50100", "65535-65536", "1-2-3", "-1"])
def test_what_is_no_range_of_ports(text: str) -> None:
    with pytest.raises(ValueError, match="port|invalid literal"):
        PortRangeType().parse(text)
