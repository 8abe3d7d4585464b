"""Translates the `?` parameters of JDBC statements to the styles of other drivers."""

from __future__ import annotations

import re

_COMMON = r'"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\?\?|\?|%'
_STRINGS = r"'(?:[^']|'')*'"
_TOKENS = {
    "postgresql": re.compile(rf"[eE]'(?:[^'\\]|''|\\.)*'|{_STRINGS}|\$(\w*)\$.*?\$\1\$|{_COMMON}", re.DOTALL),
    "mysql": re.compile(rf"'(?:[^'\\]|''|\\.)*'|`(?:[^`]|``)*`|#[^\n]*|{_COMMON}", re.DOTALL),
}
_OTHERS = re.compile(rf"{_STRINGS}|`(?:[^`]|``)*`|{_COMMON}", re.DOTALL)


def _tokens(backend: str) -> re.Pattern[str]:
    return _TOKENS.get("mysql" if backend == "mariadb" else backend, _OTHERS)


def count_parameters(sql: str, backend: str) -> int:
    """Return the number of parameters in a statement: question marks outside of strings, names and comments."""
    return sum(match.group() == "?" for match in _tokens(backend).finditer(sql))


def driver_sql(sql: str, backend: str, paramstyle: str) -> str:
    """Return a statement in a driver's parameter style; `??` is a literal question mark (PostgreSQL's JSON operator).

    Args:
        sql: The statement.
        backend: SQLAlchemy's name of the kind of database.
        paramstyle: The style of the driver, as in PEP 249.
    """
    formats = paramstyle in ("format", "pyformat")
    numbers = iter(range(1, len(sql) + 1))

    def translated(match: re.Match[str]) -> str:
        part = match.group()
        if part == "?":
            return "%s" if formats else f":{next(numbers)}" if paramstyle == "numeric" else "?"
        if part == "??":
            return "?" if formats else "??"
        return part.replace("%", "%%") if formats else part

    return _tokens(backend).sub(translated, sql)
