from __future__ import annotations

from pystate.common.bounded_text import MAX_MESSAGE, bounded_text


def test_a_short_text_stays_and_a_long_one_loses_its_middle():
    assert bounded_text("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE
    text = "beginning" + "x" * 1_000_000 + "end"
    short = bounded_text(text)
    assert len(short) < MAX_MESSAGE + 60
    assert short.startswith("beginning")
    assert short.endswith("end")
    assert f"\n... {len(text) - MAX_MESSAGE} characters are left out ...\n" in short
    assert bounded_text("abcdefgh", 4, 1).splitlines() == ["a", "... 4 characters are left out ...", "fgh"]
