"""Options of connectors in other distributions are options like any others."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.configuration.options import GROUP, nearest_key, option_of
from pystate.common.errors import ConfigurationError, ConnectorError, DynamicPropertyError
from pystate.common.files.home import PystateHome
from tests.connectors.distributions import found_in, install

OPTIONS = """
    from pystate.common.configuration.config_option import ConfigOption
    from pystate.common.configuration.option_types import DurationType


    class LampOptions:
        BLINK = ConfigOption[int]("lamp.blink", DurationType(), 1_000, "How long it is on.")
"""


@pytest.fixture
def path(tmp_path):
    with found_in(tmp_path / "site"):
        yield tmp_path / "site"


def lamp(path, options=OPTIONS):
    install(path, "pystate-lamp", "lamp = lamp_options:LampOptions", group=GROUP, lamp_options=options)


def test_one_is_set_checked_and_found_like_ours(path, tmp_path, monkeypatch):
    lamp(path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text('"lamp.blink" = "2s"\n')
    option = option_of("lamp.blink")

    of_file = load_configuration(home=PystateHome()).configuration
    of_command = load_configuration(overrides={"lamp.blink": "3s"}, home=PystateHome()).configuration

    assert option is not None
    assert [one.get(option) for one in (Configuration(), of_file, of_command)] == [1_000, 2_000, 3_000]
    assert of_file.get_string("lamp.blink", "") == "2 s"
    with pytest.raises(ConfigurationError, match="'bright' of 'lamp.blink' is not allowed"):
        Configuration().set_string("lamp.blink", "bright")
    with pytest.raises(DynamicPropertyError) as misspelt:
        load_configuration(overrides={"lamp.blnik": "3s"}, home=PystateHome())
    assert misspelt.value.hint == "did you mean 'lamp.blink'?"


def test_one_whose_distribution_is_gone_is_unknown(path):
    assert (option_of("lamp.blink"), nearest_key("lamp.blink")) == (None, None)
    with pytest.raises(ConfigurationError, match="There is no option 'lamp.blink'"):
        load_configuration(overrides={"lamp.blink": "3s"}, home=PystateHome())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("import nosuch", "The options of 'lamp' can't be loaded: ModuleNotFoundError: No module named 'nosuch'"),
        (
            OPTIONS.replace("lamp.blink", "state.blink"),
            "The option 'state.blink' of pystate-lamp doesn't begin with 'lamp'.",
        ),
    ],
)
def test_broken_ones_are_named_with_their_distribution(path, options, said):
    lamp(path, options)

    with pytest.raises(ConnectorError) as failed:
        load_configuration(overrides={"lamp.blink": "3s"}, home=PystateHome())

    assert (failed.value.message, failed.value.where) == (
        said,
        "entry point lamp = lamp_options:LampOptions of pystate-lamp",
    )
    assert failed.value.hint


def test_nobody_looks_for_them_where_all_keys_are_ours(path):
    lamp(path, "import nosuch")

    loaded = load_configuration(overrides={"execution.checkpointing.interval": "3s"}, home=PystateHome())

    assert loaded.configuration.get_string("execution.checkpointing.interval", "") == "3 s"
