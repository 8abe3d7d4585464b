"""Rolling aggregations of keyed streams, and `reduce`, over tuples, rows, numbers and untyped elements."""

from pyflink.common import Row, Types

SALE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
SALES = [
    ("a", 3, 1.5),
    ("b", 5, 0.25),
    ("a", 3, 2.5),
    ("a", 1, 9.0),
    ("c", 7, -1.0),
    ("b", 5, 0.5),
    ("a", 8, 0.0),
    ("b", -2, 4.0),
    ("c", 7, -3.5),
    ("a", 1, 7.25),
]
ROW = Types.ROW_NAMED(["name", "amount", "price"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
NUMBERS = [3, 8, 1, 10, 5, 2, 7, 4]


def _sales(env):
    return env.from_collection(SALES, SALE).key_by(lambda value: value[0], Types.STRING())


def _rows(env):
    return env.from_collection([Row(*sale) for sale in SALES], ROW).key_by(lambda row: row[0], Types.STRING())


def _numbers(env):
    return env.from_collection(NUMBERS, Types.LONG()).key_by(lambda value: value % 2, Types.LONG())


def _untyped(env):
    return env.from_collection(SALES).key_by(lambda value: value[0])


def sum_of_tuples(env):
    return {"amount": _sales(env).sum(1), "price": _sales(env).sum(2)}


def min_of_tuples(env):
    return {"amount": _sales(env).min(1), "price": _sales(env).min(2)}


def max_of_tuples(env):
    return {"amount": _sales(env).max(1), "price": _sales(env).max(2)}


def min_by_of_tuples(env):
    return {"amount": _sales(env).min_by(1), "price": _sales(env).min_by(2)}


def max_by_of_tuples(env):
    return {"amount": _sales(env).max_by(1), "price": _sales(env).max_by(2)}


def sum_of_rows(env):
    return {"by_place": _rows(env).sum(1), "by_name": _rows(env).sum("price")}


def min_and_max_of_rows(env):
    return {"min": _rows(env).min("amount"), "max": _rows(env).max("price")}


def min_by_and_max_by_of_rows(env):
    return {"min_by": _rows(env).min_by("price"), "max_by": _rows(env).max_by("amount")}


def of_numbers(env):
    return {"sum": _numbers(env).sum(), "min": _numbers(env).min(), "max": _numbers(env).max(0)}


def by_of_numbers(env):
    return {"min_by": _numbers(env).min_by(), "max_by": _numbers(env).max_by()}


def sum_of_untyped(env):
    return _untyped(env).sum(1)


def max_by_of_untyped(env):
    return _untyped(env).max_by(2)


def of_texts(env):
    words = env.from_collection(["to", "be", "or", "not", "to"], Types.STRING())
    keyed = words.key_by(lambda word: len(word), Types.INT())
    return {"min": keyed.min(), "max": keyed.max(), "sum": keyed.sum()}


def sum_of_lists(env):
    lists = env.from_collection([[1, 2], [1, 5], [2, 7], [1, 9]])
    return lists.key_by(lambda value: value[0]).sum(1)


def reduce_rows(env):
    return _rows(env).reduce(lambda one, other: Row(one[0], one[1] + other[1], max(one[2], other[2])))


def reduce_numbers(env):
    return _numbers(env).reduce(lambda one, other: one * 10 + other)


def aggregations_one_after_another(env):
    totals = _sales(env).sum(1)
    return totals.key_by(lambda value: value[1] % 2 == 0, Types.BOOLEAN()).max(1).map(lambda value: value[1], Types.LONG())


ONE_SUBTASK = ("aggregations_one_after_another",)
BATCH = (
    "sum_of_tuples",
    "min_of_tuples",
    "max_by_of_tuples",
    "sum_of_rows",
    "min_by_and_max_by_of_rows",
    "of_numbers",
    "sum_of_untyped",
    "reduce_rows",
)
