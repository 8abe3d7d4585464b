"""What of a job's prints reaches a terminal."""

import io

import pytest

from pystate_cli.console.console import Console
from pystate_cli.console.terminal_filter import TerminalFilter
from tests.cli.console.test_console import Terminal


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"plain \xc3\xa4\t.\n", "plain ä\t.\n"),
        (b"\x1b[2J\x1b[1;1H\x07\x08", "?[2J?[1;1H??"),
        (b"\x1b]0;title\x07\x1bP+q\x1b\\", "?]0;title??P+q?\\"),
        (b"\xc2\x9b31m\xe2\x80\xae", "?31m?"),
        (b"\x9b31m\xff", "�31m�"),
        (b"\x1b[31;1mred\x1b[0m\n", "\x1b[31;1mred\x1b[0m\x1b[m\n"),
        (b"\x1b[01;38;5;8mgrey\nnot\n", "\x1b[01;38;5;8mgrey\x1b[m\nnot\n"),
        (b"\x1b[48;2;1;2;3mx", "\x1b[48;2;1;2;3mx\x1b[m"),
        (b"\x1b[8mhidden\x1b[1;8mtoo\x1b[08m", "hiddentoo"),
        (b"\x1b[?25l\x1b[999m\x1b[38;5m", "?[?25l?[999m?[38;5m"),
        (b"50 %\r100 %\r\nover\r", "50 %\n100 %\nover"),
    ],
)
def test_text_and_colours_get_through(printed, shown):
    assert TerminalFilter("utf-8")(printed).decode() == shown


def test_pieces_may_end_anywhere():
    printed = "ä\x1b[31mred\x1b[0m\r\nend\x1b[2J\n".encode()
    filtered = TerminalFilter("utf-8")
    shown = b"".join(filtered(bytes([one])) for one in printed).decode()
    # a colour ends with its piece
    assert shown.replace("\x1b[31m\x1b[m", "").replace("\x1b[0m\x1b[m", "") == "äred\nend?[2J\n"


def test_a_terminal_without_unicode_gets_what_it_can_show():
    assert TerminalFilter("ascii")("ä".encode()) == b"\\xe4"


def test_a_pipe_gets_the_bytes_as_they_are_and_a_terminal_does_not():
    printed = b"\x1b[2J\xff\r\n"
    pipe, terminal = io.TextIOWrapper(io.BytesIO()), Terminal(io.BytesIO(), encoding="utf-8")
    for stdout in (pipe, terminal):
        Console(stdout, io.StringIO()).raw(printed)
    assert pipe.buffer.getvalue() == printed
    assert terminal.buffer.getvalue().decode() == "?[2J�\n"
