"""The commands ask connectors, those of other distributions as well, and say which one is broken."""

from __future__ import annotations

import json

import pytest

from pystate_cli.commands.new import _complete_template
from tests.connectors.distributions import LAMP, ODD, found_in, install


@pytest.fixture
def path(tmp_path):
    with found_in(tmp_path / "site"):
        yield tmp_path / "site"


def checks(outcome):
    return {check["name"]: check for check in json.loads(outcome.out)["checks"]}


def test_a_connector_has_its_line_of_doctor_and_its_template(path, pystate, tmp_path):
    install(path, "pystate-lamp", "lamp = lamp_connector:Lamp", lamp_connector=LAMP)

    found = checks(pystate("doctor", "--json"))
    code, _, err = pystate("new", "my-lamp", "--template", "lamp")

    assert found["lamp"] == {"name": "lamp", "status": "warn", "text": "it is off", "hint": "switch it on"}
    assert (code, (tmp_path / "my-lamp" / "my_lamp.py").read_text()) == (0, "my-lamp blinks"), err


def test_one_that_can_not_be_loaded_fails_its_own_check_alone(path, pystate):
    install(path, "pystate-bad", "bad = bad_connector:Bad", bad_connector="import nosuch")
    install(path, "pystate-odd", "odd = odd_connector:Odd", odd_connector=ODD)

    outcome = pystate("doctor", "--json")
    code, _, err = pystate("new", "my-job", "--template", "files")

    found = checks(outcome)
    assert outcome.code == 1
    assert [found[name]["status"] for name in ("bad", "odd", "kafka")] == ["fail", "fail", "ok"]
    assert found["bad"]["text"].endswith("No module named 'nosuch' (entry point bad = bad_connector:Bad of pystate-bad)")
    assert code == 1
    assert err.startswith("error: The connector 'bad' can't be loaded: ModuleNotFoundError: No module named 'nosuch'")


def test_a_template_that_is_there_twice_is_refused(path, pystate):
    install(path, "pystate-lamp", "lamp = lamp_connector:Lamp", lamp_connector=LAMP.replace('{"lamp": Pro', '{"count": Pro'))

    code, _, err = pystate("new", "my-job")

    assert code == 1
    assert "The template 'count' of the connector 'lamp' has the name of another one." in err


def test_a_shell_is_offered_the_templates_of_connectors(path):
    install(path, "pystate-lamp", "lamp = lamp_connector:Lamp", lamp_connector=LAMP)
    assert [name for name, _ in _complete_template("")] == ["count", "files", "kafka", "lakehouse", "lamp", "windows"]
    assert _complete_template("lam") == [("lamp", "blinks")]


def test_a_shell_is_offered_nothing_where_a_connector_is_broken(path):
    install(path, "pystate-bad", "bad = bad_connector:Bad", bad_connector="import nosuch")
    assert _complete_template("") == []
