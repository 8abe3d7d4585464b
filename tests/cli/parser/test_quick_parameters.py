"""What passes unchecked is what typer's check would have let pass, as it would have been."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from pystate_cli.parser.quick_parameters import let_pass_unchecked


def upper(value: str | None) -> str | None:
    return value and value.upper()


def parsed(words: list[str], *, quick: bool) -> Any:
    """Return what a command gets, or the error."""
    app = typer.Typer(add_completion=False)
    got: dict[str, Any] = {}

    @app.command("one")
    def one(
        name: str,
        others: list[str] | None = None,
        text: str | None = None,
        said: Annotated[str, typer.Option(callback=upper)] = "default",
        number: Annotated[float, typer.Option(min=0.5, max=8.5)] = 2.0,
        count: int | None = None,
        pairs: Annotated[list[str] | None, typer.Option("-D")] = None,
        numbers: Annotated[list[int] | None, typer.Option("-N")] = None,
        flag: bool = False,
    ) -> None:
        got.update(locals())

    @app.command("two")
    def two(others: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        got.update(locals())

    command = get_command(app)
    if quick:
        let_pass_unchecked(command)
    try:
        command(words, standalone_mode=False)
    except Exception as error:  # the parser's errors are of no public class
        return type(error).__name__, error.format_message()
    return {name: value for name, value in got.items() if name not in ("got", "app")}


@pytest.mark.parametrize(
    "words",
    [
        ["one", "x"],
        ["one", ""],
        ["one"],
        ["one", "x", "--text", "y", "--said", "z", "--flag"],
        ["one", "x", "--text", "2", "--number", "0.7", "--count", "3"],
        ["one", "x", "-D", "a=b", "-D", "c=d", "-N", "1", "-N", "2"],
        ["one", "x", "-N", "y"],
        ["one", "x", "--nosuch"],
        ["two"],
        ["two", "a", "b"],
        ["three"],
    ],
    ids=" ".join,
)
def test_a_command_gets_the_same_values_and_the_same_errors(words):
    assert parsed(words, quick=True) == parsed(words, quick=False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--number", "0.1"), "'--number': 0.1 is less than 0.5."),
        (("--number", "9"), "'--number': 9 is more than 8.5."),
        (("--number", "much"), "'--number': 'much' is not a number."),
        (("--number", "nan"), "'--number': 'nan' is not a number."),
        (("--count", "3.5"), "'--count': '3.5' is not a whole number."),
    ],
)
def test_a_number_that_can_not_be_is_told_in_words_for_people(words, told):
    assert parsed(["one", "x", *words], quick=True) == ("BadParameter", f"Invalid value for {told}")
    assert parsed(["one", "x", *words], quick=False)[0] == "BadParameter" or "nan" in words


def test_the_callback_is_called_for_what_passes_unchecked():
    got = parsed(["one", "x", "--said", "loud"], quick=True)

    assert got["said"] == "LOUD"


def test_a_typer_that_does_not_tell_what_its_values_are_is_left_alone(monkeypatch):
    app = typer.Typer(add_completion=False)

    @app.command()
    def one(count: int = 1) -> int:
        return count

    command = get_command(app)
    let_pass_unchecked(command)
    context = command.make_context("one", ["--count", "7"])
    for parameter in command.params:
        monkeypatch.setattr(parameter, "type_descriptor", None, raising=False)
        checked: list[Any] = []
        monkeypatch.setattr(type(parameter), "process_value", lambda _self, _context, value, _to=checked: _to.append(value))
        del parameter.process_value
        command.get_params(context)
        parameter.process_value(context, "3")
        assert checked == ["3"]
