"""A plain `python job.py` ends with the failure of its job, unless somebody has asked for restarts or checkpoints."""

import pytest

from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions, RestartStrategyType
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.files.home import PystateHome
from pystate.runtime.driver.embedded import with_own_restarts_only
from pystate.runtime.job_folder.restart_strategies import restart_strategy


@pytest.fixture
def strategy(tmp_path, monkeypatch):
    """Return the strategy of a program, from the lines of its file and what it sets itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.delenv("PYSTATE_CONF_DIR", raising=False)

    def of(file="", program=lambda configuration: None):
        if file:
            (tmp_path / "conf").mkdir()
            (tmp_path / "conf" / "flink-conf.toml").write_text(file)
        configuration = load_configuration(home=PystateHome(tmp_path / "home")).configuration
        program(configuration)
        return restart_strategy(with_own_restarts_only(configuration)).kind

    return of


@pytest.mark.parametrize("file", ["", '"parallelism.default" = 2\n'])
def test_without_settings_of_its_own_a_program_is_not_restarted(strategy, file):
    assert strategy(file) is RestartStrategyType.NONE


def test_a_file_or_program_that_asks_for_checkpoints_has_the_restarts_that_go_with_them(strategy):
    def program(configuration):
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, 1000)

    assert strategy(program=program) is RestartStrategyType.EXPONENTIAL_DELAY
    assert strategy('"execution.checkpointing.interval" = "5 s"\n') is RestartStrategyType.EXPONENTIAL_DELAY


def test_a_strategy_that_is_asked_for_is_the_one(strategy):
    def program(configuration):
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, RestartStrategyType.FIXED_DELAY)

    assert strategy(program=program) is RestartStrategyType.FIXED_DELAY
