"""Where a database is, and what of it is shown."""

from __future__ import annotations

import pickle

import pytest

from pystate.common.errors import ConfigurationError, ExternalSystemError, PystateError
from pystate.connectors.sql import SqlConnectionOptions, SqlSink
from pystate.connectors.sql.jdbc_url import from_jdbc
from pystate.connectors.sql.sql_parameters import count_parameters, driver_sql
from tests.connectors.sql.databases import connected


@pytest.mark.parametrize(
    ("jdbc", "expected"),
    [
        ("jdbc:postgresql://host:5433/db", "postgresql+psycopg://host:5433/db"),
        ("jdbc:postgresql://host/db?user=a&password=b%2Fc", "postgresql+psycopg://a:b%2Fc@host/db"),
        ("jdbc:postgresql:db", "postgresql+psycopg://localhost/db"),
        (
            "jdbc:postgresql://host/db?sslmode=require&reWriteBatchedInserts=true",
            "postgresql+psycopg://host/db?sslmode=require",
        ),
        ("jdbc:postgresql://host/db?currentSchema=s", "postgresql+psycopg://host/db?options=-csearch_path%3Ds"),
        ("jdbc:mysql://host:3306/db?characterEncoding=UTF-8", "mysql+pymysql://host:3306/db?charset=utf8mb4"),
        ("jdbc:mariadb://host/db", "mariadb+pymysql://host/db"),
        ("jdbc:sqlite:/tmp/db", "sqlite:////tmp/db"),
        ("postgresql://a:b@host/db", "postgresql+psycopg://a:b@host/db"),
    ],
)
def test_jdbc_urls(jdbc, expected):
    assert SqlConnectionOptions(jdbc).url().render_as_string(hide_password=False) == expected


@pytest.mark.parametrize("url", ["jdbc:oracle:thin:@host", "jdbc:mysql://host/db?useSSL=true", "nonsense", "duckdb://x"])
def test_what_is_not_known_is_refused(url):
    with pytest.raises(ConfigurationError):
        SqlConnectionOptions(url).create_engine()


def test_user_and_password_go_beside_the_url():
    options = SqlConnectionOptions("jdbc:postgresql://host/db", user_name="me", password="p/w")
    assert options.url().render_as_string(hide_password=False) == "postgresql+psycopg://me:p%2Fw@host/db"
    assert "p/w" not in repr(options)


def test_the_url_from_a_variable_or_a_file_is_not_in_the_program(tmp_path, monkeypatch):
    file = tmp_path / "url"
    file.write_text("sqlite:///one\n")
    monkeypatch.setenv("DATABASE", "postgresql://me:hidden@host/db")
    by_file, by_variable = SqlConnectionOptions(url_file=str(file)), SqlConnectionOptions(url_variable="DATABASE")
    assert by_file.url().database == "one"
    assert by_variable.url().password == "hidden"
    assert b"hidden" not in pickle.dumps(by_variable)
    assert "hidden" not in repr(by_variable)
    monkeypatch.delenv("DATABASE")
    file.unlink()
    for options in (by_file, by_variable):
        with pytest.raises((ConfigurationError, ExternalSystemError), match="URL of the database"):
            options.url()


@pytest.mark.parametrize(
    "url", ["postgresql://me:hid%2Fden@127.0.0.1:1/db?password=hid/den", "postgresql://me:hid/den@x:y:z/db"]
)
def test_a_password_is_in_no_error(url, caplog):
    sink = SqlSink.builder().set_url(url).set_table("t").set_columns("a").build()
    text = ""
    try:
        text = repr(sink)
        with connected(url):
            pass
    except PystateError as error:
        cause = error
        while cause is not None:
            text += f"{cause!r} {cause}"
            cause = cause.__cause__ or cause.__context__
    except Exception as error:  # of SQLAlchemy, for the URL that can be understood
        text += str(error)
    assert text
    assert "hid/den" not in text + caplog.text
    assert "hid%2Fden" not in text + caplog.text


@pytest.mark.parametrize(
    ("sql", "backend", "style", "expected", "count"),
    [
        ("INSERT INTO t VALUES (?, ?)", "sqlite", "qmark", "INSERT INTO t VALUES (?, ?)", 2),
        ("INSERT INTO t VALUES (?, '?%')", "postgresql", "pyformat", "INSERT INTO t VALUES (%s, '?%%')", 1),
        ("SELECT a ?? b, ? -- ?", "postgresql", "pyformat", "SELECT a ? b, %s -- ?", 1),
        ("SELECT $x$ ? $x$, ?, E'\\' ?'", "postgresql", "pyformat", "SELECT $x$ ? $x$, %s, E'\\' ?'", 1),
        ("SELECT '\\' ?', `?`, ? # ?", "mysql", "format", "SELECT '\\' ?', `?`, %s # ?", 1),
        ("SELECT 'it''s ?', \"?\", /* ? */ ?", "sqlite", "qmark", "SELECT 'it''s ?', \"?\", /* ? */ ?", 1),
    ],
)
def test_question_marks_become_what_a_driver_wants(sql, backend, style, expected, count):
    assert driver_sql(sql, backend, style) == expected
    assert count_parameters(sql, backend) == count


def test_other_urls_stay_as_they_are():
    assert from_jdbc("mysql+mysqldb://host/db") == "mysql+mysqldb://host/db"
