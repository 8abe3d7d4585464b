"""What a console holds back."""

import io

from pystate.common.errors import PystateError
from pystate_cli.console import console as module
from pystate_cli.console.console import Console


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def test_a_very_long_line_above_a_live_view_is_broken_not_held(monkeypatch):
    monkeypatch.setattr(module, "_MAX_UNFINISHED_BYTES", 100)
    stdout = Terminal(io.BytesIO())
    console = Console(stdout, Terminal(io.BytesIO()))
    with console.live_view():
        console.raw(b"short\nunfinished")
        assert stdout.buffer.getvalue() == b"short\n"
        for _ in range(3):
            console.raw(b"x" * 60)
        assert stdout.buffer.getvalue() == b"short\nunfinished" + b"x" * 120 + b"\n"
    assert stdout.buffer.getvalue().endswith(b"\n" + b"x" * 60 + b"\n")


def warned(stderr, line):
    Console(io.StringIO(), stderr).warning(line)
    stderr.flush()
    return stderr.buffer.getvalue().decode()


def test_a_warning_is_broken_between_words_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    path = "/a/path/that/is/longer/than/a/line/of/this/terminal"
    line = f"The operator 'Count' keeps state and has no uid, see {path} for more of that."
    assert warned(Terminal(io.BytesIO(), encoding="utf-8"), line).splitlines() == [
        "warning: The operator 'Count' keeps",
        "  state and has no uid, see",
        f"  {path}",
        "  for more of that.",
    ]
    assert warned(Terminal(io.BytesIO(), encoding="utf-8"), "算子" * 7 + " 没有 uid 和更多").splitlines() == [
        "warning: " + "算子" * 7,
        "  没有 uid 和更多",
    ]
    assert warned(io.TextIOWrapper(io.BytesIO()), line) == f"warning: {line}\n"


def test_in_a_pipe_a_savepoint_that_waits_for_an_epoch_says_so_once():
    told = io.StringIO()
    console = Console(io.StringIO(), told)
    with console.progress("The savepoint is being written", waiter="The savepoint") as show:
        show(0, 2, 0, "waits for the end of epoch 1")
        show(0, 2, 0, "")
        assert told.getvalue() == "", "it was over by the next look"
        for seconds in (3, 4, 5):
            show(0, 2, 0, f"waits for the end of epoch 2, which has run for {seconds}.0 s")
        show(1, 2, 10, "")
        show(1, 2, 10, "waits for the end of epoch 3")
    assert told.getvalue() == "The savepoint waits for the end of epoch 2, which has run for 4.0 s.\n"
    with console.progress("The checkpoint is being written") as show:
        assert show is None


def test_an_error_steers_no_terminal():
    stderr = io.StringIO()
    Console(io.StringIO(), stderr).error(PystateError("first\x1b[2J\nsecond\r\x07\tthird", where="a\x9bb"))
    assert stderr.getvalue().endswith("first?[2J\n  second??\tthird\n  at: a?b\n")
