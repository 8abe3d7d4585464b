"""Key groups: Spark's hash and Flink's arithmetic, against vectors taken from both."""

from __future__ import annotations

import struct

import pytest

from pystate.common.key_groups import (
    KeyGroupRange,
    default_max_parallelism,
    hash_bytes,
    hash_int,
    key_group,
    key_group_range,
    operator_index,
)

# From Spark 4.3.0: value, F.hash(value), F.hash(F.lit(7), value), F.pmod(F.hash(F.lit(7), value), F.lit(128))
SPARK_STRINGS = [
    ("", 142593372, 1892519686, 6),
    ("a", 1485273170, 178413637, 69),
    ("ab", -97053317, -1532158708, 12),
    ("abc", 1322437556, 2145440308, 52),
    ("abcd", -396302900, -2030014740, 108),
    ("abcde", 814637928, 174867153, 81),
    ("abcdef", 724255765, -1340656462, 50),
    ("abcdefg", 2132013596, -1658134476, 52),
    ("abcdefgh", -804741815, 198708081, 113),
    ("abcdefghi", -1830117711, 2002184722, 18),
    ("héllo", 1212979866, 1190583125, 85),
    ("日本語", -1143049834, -1400631297, 127),
    ("😀", 1877935379, -995561911, 73),
    ("ÿþé", 1875120339, -274594715, 101),
    ("GET /api/a", -250937991, -900272996, 28),
]
SPARK_BINARIES = [
    (b"\xfa\xfb\xfc\xfd\xfe\xff", 1971565129, -1631878134, 10),
    (b"\x80", 775851899, -944673508, 28),
    (b"", 142593372, 1892519686, 6),
    (b"\xff\xfe\xfd\xfc\xfb", 1324213860, -1997054715, 5),
    (bytes(range(40)), 1925904033, 36460542, 126),
]
SPARK_INTS = [
    (0, 933211791, -1747671608, 72),
    (1, -559580957, -290518582, 74),
    (-1, -1604776387, -165123595, 117),
    (42, 29417773, -125509249, 127),
    (2147483647, 133916647, -511119119, 113),
    (-2147483648, 723455942, -2016746309, 59),
    (32767, 1249274084, -556911963, 37),
    (-32768, -1871935946, 976117791, 31),
    (127, 1135925485, -2018406055, 89),
    (-128, 1110053733, 361632363, 107),
]
SPARK_LONGS = [
    (0, -1670924195, -1310164172, 52),
    (1, -1712319331, 1274572471, 55),
    (-1, -939490007, 1373922910, 94),
    (42, 1316951768, 1642246841, 57),
    (9223372036854775807, -1604625029, -1419161731, 125),
    (-9223372036854775808, -853646085, -983075049, 23),
    (4294967296, -1307033787, 302513620, 84),
    (-12345678901, -402911403, 1784662297, 25),
]


@pytest.mark.parametrize(("payload", "plain", "tagged", "group"), [(t.encode(), *rest) for t, *rest in SPARK_STRINGS])
def test_strings_hash_as_in_spark(payload: bytes, plain: int, tagged: int, group: int) -> None:
    assert hash_bytes(payload, 42) == plain
    assert hash_bytes(payload, hash_int(7, 42)) == tagged
    assert key_group(7, payload, 128) == group


@pytest.mark.parametrize(("payload", "plain", "tagged", "group"), SPARK_BINARIES)
def test_binaries_hash_as_in_spark(payload: bytes, plain: int, tagged: int, group: int) -> None:
    assert hash_bytes(payload, 42) == plain
    assert hash_bytes(payload, hash_int(7, 42)) == tagged
    assert key_group(7, payload, 128) == group


@pytest.mark.parametrize(("value", "plain", "tagged", "group"), SPARK_INTS)
def test_ints_hash_as_in_spark(value: int, plain: int, tagged: int, group: int) -> None:
    assert hash_int(value, 42) == plain
    assert hash_bytes(struct.pack("<i", value), hash_int(7, 42)) == tagged
    assert key_group(7, struct.pack("<i", value), 128) == group


@pytest.mark.parametrize(("value", "plain", "tagged", "group"), SPARK_LONGS)
def test_longs_hash_as_in_spark(value: int, plain: int, tagged: int, group: int) -> None:
    assert hash_bytes(struct.pack("<q", value), 42) == plain
    assert hash_bytes(struct.pack("<q", value), hash_int(7, 42)) == tagged
    assert key_group(7, struct.pack("<q", value), 128) == group


def test_bytes_longer_than_the_prepared_layouts_hash_word_by_word() -> None:
    data = bytes(range(256)) * 2
    state = 42
    for word in struct.unpack("<128i", data):  # a hash of ints without the finish would do; mixing is associative by word
        state = _mix(state, word)
    assert hash_bytes(data, 42) & 0xFFFFFFFF == _finish(state, len(data))


def _mix(h: int, word: int) -> int:
    k = (word & 0xFFFFFFFF) * 0xCC9E2D51 & 0xFFFFFFFF
    k = ((k << 15) | (k >> 17)) & 0xFFFFFFFF
    h ^= k * 0x1B873593 & 0xFFFFFFFF
    h = ((h << 13) | (h >> 19)) & 0xFFFFFFFF
    return (h * 5 + 0xE6546B64) & 0xFFFFFFFF


def _finish(h: int, length: int) -> int:
    h ^= length
    h = (h ^ (h >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ (h >> 16)


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (200, 512), (1000, 2048), (22000, 32768), (32768, 32768)],
)
def test_the_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


def test_key_group_ranges_are_flinks() -> None:
    assert [str(key_group_range(i, 3, 128)) for i in range(3)] == ["0..42", "43..85", "86..127"]


@pytest.mark.parametrize("max_parallelism", [1, 2, 7, 128, 1000])
def test_ranges_tile_the_key_groups_and_agree_with_the_operator_index(max_parallelism: int) -> None:
    for parallelism in {1, 2, 3, max_parallelism // 2, max_parallelism - 1, max_parallelism}:
        if not 1 <= parallelism <= max_parallelism:
            continue
        ranges = [key_group_range(i, parallelism, max_parallelism) for i in range(parallelism)]
        for group in range(max_parallelism):
            owner = operator_index(group, parallelism, max_parallelism)
            assert [i for i, r in enumerate(ranges) if group in r] == [owner]
        assert sum(map(len, ranges)) == max_parallelism


def test_ranges_intersect() -> None:
    assert KeyGroupRange(0, 10).intersect(KeyGroupRange(5, 20)) == KeyGroupRange(5, 10)
    assert len(KeyGroupRange(0, 4).intersect(KeyGroupRange(5, 20))) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: default_max_parallelism(0),
        lambda: default_max_parallelism(32769),
        lambda: key_group_range(0, 129, 128),
        lambda: key_group_range(3, 3, 128),
        lambda: key_group_range(0, 1, 32769),
        lambda: KeyGroupRange(3, 1),
        lambda: KeyGroupRange(-1, 1),
    ],
)
def test_numbers_that_do_not_fit_are_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"\d"):
        wrong()
