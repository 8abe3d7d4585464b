"""A failure as the Java object that Flink's client rebuilds from `serialized-throwable`.

The client requires it. The bytes are an `org.apache.flink.util.SerializedThrowable` in Java's object stream
protocol, with strings only: class name, message and stack trace. No other class is needed to read it.
"""

from __future__ import annotations

import base64
import struct

_STRING = b"t\x00\x12Ljava/lang/String;"
_SAME_STRING = b"q\x00~\x00\x01"  # the string that was the second object of the stream
_NULL = b"p"
_END = b"x"
# each class: its name, its serialVersionUID, its flags, its fields
_CLASSES = (
    b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable\x65\x16\x9d\xf5\x1f\xa7\x13\xf3\x02\x00\x03"
    b"L\x00\x19fullStringifiedStackTrace" + _STRING + b"L\x00\x16originalErrorClassName" + _SAME_STRING + b"["
    b"\x00\x13serializedExceptiont\x00\x02[B" + _END + b"r\x00\x13java.lang.Exception\xd0\xfd\x1f>\x1a;\x1c\xc4\x02\x00\x00"
    + _END + b"r\x00\x13java.lang.Throwable\xd5\xc65'9w\xb8\xcb\x03\x00\x04"
    b"L\x00\x05causet\x00\x15Ljava/lang/Throwable;L\x00\rdetailMessage" + _SAME_STRING + b"["
    b"\x00\nstackTracet\x00\x1e[Ljava/lang/StackTraceElement;L\x00\x14suppressedExceptionst\x00\x10Ljava/util/List;"
    + _END + _NULL
)  # fmt: skip
_NO_STACK = b'ur\x00\x1e[Ljava.lang.StackTraceElement;\x02F*<<\xfd"9\x02\x00\x00' + _END + _NULL + b"\x00\x00\x00\x00"


def serialized_throwable(class_name: str, message: str, stack_trace: str) -> str:
    """Return the object in base64.

    Args:
        class_name: The name of the error's class.
        message: The message.
        stack_trace: The output of Java's `printStackTrace`.
    """
    throwable = _NULL + _text(message) + _NO_STACK + _NULL + _END
    own = _text(stack_trace) + _text(class_name) + _NULL
    return base64.b64encode(_CLASSES + throwable + own).decode("ascii")


def _text(text: str) -> bytes:
    data = _modified_utf8(text)
    if len(data) <= 0xFFFF:
        return b"t" + struct.pack(">H", len(data)) + data
    return b"|" + struct.pack(">Q", len(data)) + data


def _modified_utf8(text: str) -> bytes:
    """Return a string in Java's modified UTF-8: surrogates are encoded separately, and there is no zero byte."""
    halves = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(halves) // 2}H", halves)
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)
