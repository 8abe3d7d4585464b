"""What is told of guarantees fits terminals of any width, and stays one line each in files."""

from dataclasses import replace

import pytest

from pystate.common.stream_guarantee import EndToEndGuarantee, StreamGuarantee, guarantee_lines

ONCE = StreamGuarantee(
    "orders", "orders", "files", "files", EndToEndGuarantee.EXACTLY_ONCE, "committed when a checkpoint completes"
)
PRINTED = StreamGuarantee(
    "clicks of today", "clicks", "Print", "print", EndToEndGuarantee.AT_LEAST_ONCE,
    "what comes after the latest checkpoint when the job fails is printed again",
)  # fmt: skip


def test_each_is_a_line_with_its_columns_below_each_other():
    assert guarantee_lines([ONCE, PRINTED]) == [
        "orders -> files           exactly-once   committed when a checkpoint completes",
        "clicks of today -> Print  at-least-once  "
        "what comes after the latest checkpoint when the job fails is printed again",
    ]


def test_on_a_terminal_reasons_go_on_below_themselves():
    assert guarantee_lines([ONCE, PRINTED], 84, unicode=True) == [
        "orders → files           exactly-once   committed when a checkpoint completes",
        "clicks of today → Print  at-least-once  what comes after the latest checkpoint when",
        "                                        the job fails is printed again",
    ]


def test_on_a_narrow_terminal_reasons_stand_below():
    assert guarantee_lines([PRINTED], 40) == [
        "clicks of today -> Print: at-least-once",
        "    what comes after the latest",
        "    checkpoint when the job fails is",
        "    printed again",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width):
    from rich.cells import cell_len

    wide = StreamGuarantee("点击", "a", "订单汇", "b", EndToEndGuarantee.NONE, "it waits for nobody\x1b[2J")
    lines = guarantee_lines([ONCE, PRINTED, wide], width, unicode=True)
    assert max(map(cell_len, lines)) <= width
    assert "\x1b" not in "".join(lines)


def test_what_would_be_the_same_line_again_is_told_once():
    other = replace(ONCE, sink_uid="other")
    assert len(guarantee_lines([ONCE, other, PRINTED])) == 2


def test_there_may_be_nothing_to_tell():
    assert guarantee_lines([]) == []
