from __future__ import annotations

import base64

import pytest

from pystate.ops.jobmanager.rest.serialized_throwable import serialized_throwable


def decoded(*texts: str) -> bytes:
    return base64.b64decode(serialized_throwable(*texts))


def test_it_is_a_java_object_stream_of_flinks_class_with_our_texts_after_it():
    data = decoded("RestoreError", "no", "Trace\nno")

    assert data.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    # superclass first: its message, then our own fields; there is no serialized exception
    assert data.endswith(b"t\x00\x08Trace\nnot\x00\x0cRestoreErrorp")
    assert b"pt\x00\x02nou" in data


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", b"t\x00\x00"),
        ("a\0b", b"t\x00\x04a\xc0\x80b"),
        ("ä€", b"t\x00\x05\xc3\xa4\xe2\x82\xac"),
        ("\U0001f600", b"t\x00\x06\xed\xa0\xbd\xed\xb8\x80"),
        ("\ud800", b"t\x00\x03\xed\xa0\x80"),
        ("x" * 65_535, b"t\xff\xff" + b"x" * 65_535),
        ("x" * 65_536, b"|\x00\x00\x00\x00\x00\x01\x00\x00" + b"x" * 65_536),
    ],
)
def test_texts_are_written_as_java_writes_them(text, written):
    assert decoded("Error", "no", text).endswith(written + b"t\x00\x05Errorp")
