"""What a console holds back."""

import io

from pystate_cli import console as module
from pystate_cli.console import Console


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
