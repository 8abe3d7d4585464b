"""What errors of databases mean for another try: tables over all of SQLAlchemy's exceptions and SQLSTATE's classes."""

from __future__ import annotations

import pytest

from pystate.connectors.sql.sql_errors import EXCEPTIONS, STATES, Failure, failure_of

exc = pytest.importorskip("sqlalchemy").exc


def subclasses(kind):
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


class Refusal(Exception):
    """What a driver raises."""

    def __init__(self, sqlstate):
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def test_all_exceptions_of_sqlalchemys_own_are_in_the_table():
    own = {kind for kind in subclasses(exc.SQLAlchemyError) if kind.__module__ == "sqlalchemy.exc"}
    assert {kind.__name__ for kind in own if not issubclass(kind, exc.DBAPIError)} == EXCEPTIONS.keys()


def test_all_classes_of_sqlstate_are_in_the_table():
    errors = pytest.importorskip("psycopg.errors")
    states = {kind.sqlstate for kind in vars(errors).values() if isinstance(getattr(kind, "sqlstate", None), str)}
    assert len(states) > 200
    assert {state[:2] for state in states} <= STATES.keys()


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        ("23505", Failure.ROW),
        ("P0001", Failure.ROW),
        ("40001", Failure.CONFLICT),
        ("57014", Failure.CONFLICT),
        ("57P01", Failure.LOST),
        ("53100", Failure.LOST),
        ("25006", Failure.LOST),
        ("25001", Failure.OTHER),
        ("42501", Failure.OTHER),
        ("99999", Failure.OTHER),
    ],
)
def test_a_state_is_told_by_what_it_begins_with(state, failure):
    assert failure_of(exc.OperationalError("select", {}, Refusal(state))) is failure


def test_a_connection_that_is_gone_is_tried_again():
    assert failure_of(exc.ResourceClosedError("closed")) is Failure.LOST
    assert failure_of(exc.TimeoutError("pool")) is Failure.LOST
    assert failure_of(exc.NoSuchTableError("t")) is Failure.OTHER
