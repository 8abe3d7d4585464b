from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli

from pystate.common.configuration.conf_template import LIVE, main, render_template
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.configuration.options import ALL_OPTIONS
from pystate.common.files.home import PystateHome

REPOSITORY = Path(__file__).parents[3]


def test_the_file_in_the_repository_is_the_one_the_options_make() -> None:
    assert (REPOSITORY / "conf" / "flink-conf.toml").read_text("utf-8") == render_template(), "run `make conf`"


def test_the_lines_in_force_are_the_live_settings() -> None:
    assert {key: str(value) for key, value in tomli.loads(render_template()).items()} == LIVE
    assert len(LIVE) == 6


def test_every_option_stands_in_it_once_with_its_help_and_its_default() -> None:
    text = render_template()
    for key, option in ALL_OPTIONS.items():
        assert len(re.findall(f'^#?"{re.escape(key)}" = ', text, re.MULTILINE)) == 1
        help_text = " ".join(text.replace("\n# ", " ").split())
        assert " ".join(option.description.split()) in help_text
        if option.default is not None:
            assert f"Default: {option.type.to_toml(option.default)}." in help_text


def test_lines_fit_120_columns() -> None:
    assert max(len(line) for line in render_template().splitlines()) <= 120


def test_every_default_may_be_switched_on_by_taking_its_comment_sign_away(tmp_path: Path) -> None:
    without = re.sub(r'^#(".*" = )(?!"\.\.\.")', r"\1", render_template(), flags=re.MULTILINE)
    (tmp_path / "flink-conf.toml").write_text(without, "utf-8")
    configuration = load_configuration(tmp_path, home=PystateHome(tmp_path)).configuration
    for key, option in ALL_OPTIONS.items():
        if key not in LIVE:
            assert configuration.get(option) == option.default
            assert configuration.contains(option) == (option.default is not None)


def test_the_command_writes_the_file_or_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "x.toml"
    assert main([str(target)]) == 0
    assert main([]) == 0
    assert target.read_text("utf-8") == capsys.readouterr().out == render_template()
    assert main(["a", "b"]) == 2
