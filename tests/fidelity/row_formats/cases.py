"""What Flink's row formats and ours are asked: messages to read, and rows to write, by type.

`flink.json` has the answers of Flink's own classes, those behind PyFlink's names. To ask them once more (Maven, and a JDK):

    mvn -f tests/fidelity/row_formats/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DoutputDirectory="$PWD/build/row-formats"
    python -m tests.fidelity.row_formats.cases build/row-formats
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pystate.common.type_info import TypeInformation, Types

HERE = Path(__file__).parent
RECORD = HERE / "flink.json"

_SIMPLE = {
    kind: getattr(Types, kind)()
    for kind in (
        *("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "BIG_INT", "BIG_DEC"),
        *("SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT"),
    )
}
_NUMBERS = ["STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "BIG_INT", "BIG_DEC"]
_TIMES = ["SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT"]
_PARTS = {
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "ARRAY": Types.OBJECT_ARRAY(Types.INT()),
    "MAP": Types.MAP(Types.INT(), Types.STRING()),
    "ROW": Types.ROW_NAMED(["x"], [Types.INT()]),
}
_DECIMALS_TOO = Types.ROW_NAMED(["s", "d"], [Types.STRING(), Types.BIG_DEC()])

# what stands for a field in JSON
_TOKENS = """1 -1 -0 0.0 5.5 5.0 1.10 1e3 1E400 1e999999 1e-400 3.5e38 1.7976931348623159e308 128 32768
2147483648 9223372036854775807 9223372036854775808 -9223372036854775809 99999999999999999999999999 true false null "" "5"
"+5" "5.5" "abc" "true" "TRUE" "NaN" "Infinity" "-Infinity" "inf" "nan" "1e3" "0x10" "1_000" "5d" "1e999999999999" [] [1] {}
{"a":1} NaN Infinity 01 +1 .5 5. 0x10 'a' "a" "ab" "ä" "\\u00e4" "\\ud83d\\ude00" "\\ud800" "\\q" "a/\\"b\\\\" """.split()
_TOKENS += ['" 5 "', '" true "', '"\u0663"', '"a\tb"', '{"a": [1.10, 1e3, -0.0], "ä" : "\\u00e4\\n"}']
_TIME_TOKENS = """2024-02-29 2024-02-30 20240229 2024-2-9 12:00:00Z 12:00:00 12:00:00.5Z 12:00:00.000Z 12:00Z
12:00:00+00:00 12:00:00+02:00 24:00:00Z 23:59:60Z 2024-02-29T12:00:00Z 2024-02-29T12:00:00 2024-02-29T12:00:00.5Z
2024-02-29T12:00:00.123456Z 2024-02-29T12:00:00.123456789Z 2024-02-29T12:00:00+02:00 2024-02-29T12:00:00.123456789+02:00
2024-02-29T12:00:00z 2024-02-29T12:00Z 2024-02-29T24:00:00Z 1969-12-31T23:59:59.5Z
1969-12-31T23:59:59.123456789Z 0000-01-01T00:00:00Z
9999-12-31T23:59:59.999999Z +12024-02-29T12:00:00Z 2024-W09-4 x""".split()
_TIME_TOKENS += ["", " 2024-02-29 ", "2024-02-29 12:00:00Z"]
_PART_TOKENS = {
    "bytes": ['"AP8="', '"AP8"', '"A P8="', '"***"', '""', "5", "[1]", "null", '"_-8="'],
    "ARRAY": ["[1,2]", "[1,null]", "[]", "5", '"1"', '[1,"x"]', '["2"]', "{}", "null"],
    "MAP": ['{"1":"a"}', '{"x":"a"}', '{" 1 ":null}', "[1]", '{"1":2,"1":3}', "{}", '{"1":{"a":1.10}}', "null"],
    "ROW": ['{"x":1}', "{}", '{"x":"a"}', '{"x":null}', "[1]", "null", '{"X":1}', '{"y":1,"x":2}'],
}
# whole messages for a row of one INT
_MESSAGES: list[str | bytes] = [
    *("", "  ", "null", "[1]", '"x"', "1", '{"f":1}', '{"f":1}{"f":2}', '{"f":1} x', '{"f":1}]', '{"f":1,"f":2}', '{"f":1'),
    *(
        "{'f':1}",
        '{"f":1,}',
        '{"f":1}//c',
        '/*c*/{"f":1}',
        "{f:1}",
        '{"F":1}',
        '{"g":1,"f":2}',
        '{"f":1,"g":NaN}',
        '{"f":1}\n',
    ),
    *(
        '\ufeff{"f":1}',
        '{"f":1}\0',
        ' {"f" : 1 } ',
        f'{{"f":1,"g":{"[" * 500}{"]" * 500}}}',
        "[" * 100_000,
        '{"f":' * 100_000,
    ),
    *(
        b'{"f":1,"g":"\xff"}',
        b"\xff\xfe",
        '{"f":1}'.encode("utf-16"),
        '{"f":1}'.encode("utf-16-le"),
        '{"f":1}'.encode("utf-32"),
    ),
]
_TEXTS: list[bytes] = [
    b'{"f":"\xff"}',
    b'{"f":"\xed\xa0\x80"}',
    b'{"f":"\xc0\x80"}',
    '{"f":"ä"}'.encode("latin1"),
    b'{"f":"a\nb"}',
]

_LINES = [
    "a",
    "",
    "\n",
    "a\n",
    "a\r\n",
    '"a"',
    '"a,b"',
    '"a""b"',
    'a"b',
    '"a"b',
    '"a\nb"',
    '"a\r\nb"\r\n',
    '"a',
    "#a",
    " a ",
]
_LINES += ['""', "a,b", ",", "a,", "\ufeffa", "n/a", "null", "a\nb", '"a" ,b', "a\\,b", '"a\\"b"', "ä", "x" * 200_000]
_COLUMNS = [
    "1",
    "5.5",
    " 5 ",
    "x",
    "true",
    "TRUE",
    "NaN",
    "9223372036854775808",
    "1e3",
    "1.10",
    "1_000",
    "2024-02-29",
    "2024-2-9",
]
_COLUMNS += [
    "12:00:01",
    "2024-02-29 12:00:01",
    "2024-02-29 12:00:01.5",
    "2024-02-29 12:00:01.123456789",
    "2024-02-29T12:00:01Z",
]
_COLUMNS += ["2024-02-29 12:00:01Z", "2024-02-29 12:00:01.123456789Z", "2024-02-30 00:00:00", "20240229"]

_VALUES: dict[str, list[Any]] = {
    "DOUBLE": ["NaN", "Infinity", "-Infinity", "-0.0", "1e10", "1e-7", "0.1", "100", "1.7976931348623157e308", "5e-324"],
    "FLOAT": ["NaN", "-Infinity", "0.1", "1e10", "3.4028235e38", "1.4e-45"],
    "BIG_DEC": [
        "1.10",
        "1E+3",
        "1E-10",
        "100",
        "0.00",
        "-0.000001",
        "-0.0000001",
        "1E+400",
        "12345678901234567890.123456789012345",
    ],
    "BIG_INT": [str(2**100), "-5"],
    "LONG": [str(-(2**63)), "5"],
    "STRING": ['a"\\/\n\t\x01\x1f\x7fä\u2028😀', "\ud800", "", "a,b", 'a"b', " a", "#a", "a\r\nb", "null", None],
    "BOOLEAN": ["true", "false"],
    "SQL_DATE": ["2024-02-29", "0999-01-01"],
    "SQL_TIME": ["23:59:01", "00:00:00"],
    "SQL_TIMESTAMP": [
        "2024-02-29 12:30:01.0005",
        "2024-02-29 12:30:01",
        "2024-02-29 12:30:00",
        "1969-12-31 23:59:59.999999",
    ],
    "INSTANT": [
        "2023-11-14T22:13:20.000123Z",
        "2023-11-14T22:13:20.5Z",
        "2023-11-14T22:13:00Z",
        "1969-12-31T23:59:59.999999999Z",
    ],
    "bytes": ["AP8=", ""],
    "ARRAY": [["1", "2"], ["1", None], []],
}

Question = dict[str, Any]


def questions() -> dict[str, Question]:
    """Return all questions by what names them."""
    asked: dict[str, Question] = {}
    of_times = [*(f'"{text}"' for text in _TIME_TOKENS), "1700000000", "1700000000.5", "1.0000000001", "null"]
    for kind, tokens in {**dict.fromkeys(_NUMBERS, _TOKENS), **dict.fromkeys(_TIMES, of_times)}.items():
        for token in tokens:
            asked[f"json {kind} {token}"] = _read("json", _of(_SIMPLE[kind]), f'{{"f":{token}}}')
        asked[f"json {kind} lax"] = _read("json", _of(_SIMPLE[kind]), '{"f":{"no":[]}}', ignore=True)
    for kind, tokens in _PART_TOKENS.items():
        for token in tokens:
            message = f'{{"f":{token}}}'
            asked[f"json {kind} {token}"] = _read("json", _of(_PARTS[kind]), message)
            asked[f"json {kind} {token} lax"] = _read("json", _of(_PARTS[kind]), message, ignore=True)
            asked[f"json {kind} {token} missing"] = _read("json", _of(_PARTS[kind]), message, missing=True)
    for message in _MESSAGES:
        for lax in (False, True):
            name = repr(message if len(message) < 100 else f"{message[:10]!r}...{len(message)}")
            asked[f"json message {name}{' lax' * lax}"] = _read("json", _of(_SIMPLE["INT"]), message, ignore=lax)
    for text in _TEXTS:
        asked[f"json text {text!r}"] = _read("json", _of(_SIMPLE["STRING"]), text)
    for message in ('{"s":{"price":799.929496989092949698}}', '{"s":{"n":1.25,"m":[true,null]},"d":0.5}', '{"d":-12.5e-3}'):
        asked[f"json decimals {message}"] = _read("json", _DECIMALS_TOO, message)
    for options in ({}, {"ignore": True}, {"null": "n/a"}, {"comments": True}, {"escape": "\\"}):
        for line in _LINES:
            for count in (1, 2):
                name = f"csv {count} {line[:20]!r} {' '.join(options)}".rstrip()
                asked[name] = _read("csv", _of(*[_SIMPLE["STRING"]] * count), line, **options)
    for kind in [*_NUMBERS[1:8], *_NUMBERS[9:], *_TIMES]:
        for column in _COLUMNS:
            asked[f"csv {kind} {column}"] = _read("csv", _of(_SIMPLE[kind]), column)
        asked[f"csv {kind} lax"] = _read("csv", _of(_SIMPLE[kind], _SIMPLE[kind]), "?,", ignore=True)
    for column in ("1;2", "1", "1;x", "1;;2"):
        for lax in (False, True):
            asked[f"csv ARRAY {column}{' lax' * lax}"] = _read("csv", _of(_PARTS["ARRAY"]), column, ignore=lax)
    for kind, values in _VALUES.items():
        for value in values:
            of_kind = _of(_SIMPLE.get(kind) or _PARTS[kind])
            asked[f"write json {kind} {value!r}"] = _write("json", of_kind, value)
            asked[f"write csv {kind} {value!r}"] = _write("csv", of_kind, value)
            if kind == "STRING":
                asked[f"write csv {kind} {value!r} n/a"] = _write("csv", of_kind, value, null="n/a")
                asked[f"write csv {kind} {value!r} escaped"] = _write("csv", of_kind, value, escape="\\")
    return asked


def _of(*types: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(["f", "g"][: len(types)], types)


def _read(form: str, row_type: TypeInformation, message: str | bytes, **options: Any) -> Question:
    data = message.encode() if isinstance(message, str) else message
    return {"format": form, "type": row_type.to_plain(), "message": base64.b64encode(data).decode(), **options}


def _write(form: str, row_type: TypeInformation, value: Any, **options: Any) -> Question:
    return {"format": form, "type": row_type.to_plain(), "value": [value], **options}


def ask_flink(asked: dict[str, Question], jars: str) -> dict[str, str]:
    """Return the answers of Flink's classes, which are in a folder of jars."""
    lines = "".join(f"{json.dumps(question)}\n" for question in asked.values())
    command = ["java", "-cp", f"{jars}/*", str(HERE / "AskFlink.java")]
    said = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()  # noqa: S603
    answers = [json.loads(line) for line in said.split("\n") if line]
    return dict(zip(asked, answers, strict=True))


if __name__ == "__main__":
    answers = ask_flink(questions(), sys.argv[1])
    RECORD.write_text(json.dumps(answers, indent=0, ensure_ascii=True) + "\n")
