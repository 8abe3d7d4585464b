"""Translates JDBC URLs to those of SQLAlchemy."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from pystate.common.errors import ConfigurationError

_PREFIX = "jdbc:"
_BACKENDS = {"postgresql", "mysql", "mariadb"}
_SAME = {"sslmode", "sslrootcert", "sslcert", "sslkey"}
_OTHER_NAMES = {
    "postgresql": {"ApplicationName": "application_name", "connectTimeout": "connect_timeout"},
    "mysql": {"characterEncoding": "charset"},
    "mariadb": {"characterEncoding": "charset"},
}
# batching and caching of JDBC drivers: other drivers have their own
_WITHOUT_MEANING = {
    "rewriteBatchedStatements",
    "reWriteBatchedInserts",
    "useServerPrepStmts",
    "cachePrepStmts",
    "prepStmtCacheSize",
    "prepStmtCacheSqlLimit",
    "prepareThreshold",
    "useUnicode",
    "allowPublicKeyRetrieval",
}


def from_jdbc(url: str) -> str:
    """Translate a JDBC URL to SQLAlchemy's; return others as they are.

    Raises:
        ConfigurationError: The database, or a parameter, isn't supported.
    """
    if not url.lower().startswith(_PREFIX):
        return url
    rest = url[len(_PREFIX) :]
    backend, _, place = rest.partition(":")
    backend = backend.lower()
    if backend == "sqlite":
        return f"sqlite:///{place}" if place and place != ":memory:" else "sqlite://"
    if backend not in _BACKENDS:
        message = f"jdbc:{backend}: is of a database that is not known here."
        raise ConfigurationError(message, hint="give SQLAlchemy's own URL: dialect+driver://user:password@host/database")
    if not place.startswith("//"):
        place = f"//localhost/{place.lstrip('/')}"  # jdbc:postgresql:database
    parts = urlsplit(f"{backend}:{place}")
    authority, query = parts.netloc, {}
    user, password = None, None
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "user":
            user = value
        elif name == "password":
            password = value
        elif name in _SAME:
            query[name] = value
        elif name in _OTHER_NAMES[backend]:
            query[_OTHER_NAMES[backend][name]] = _charset(value) if name == "characterEncoding" else value
        elif name == "currentSchema" and backend == "postgresql":
            query["options"] = f"-csearch_path={value}"
        elif name not in _WITHOUT_MEANING:
            message = f"The JDBC parameter {name} has no meaning here."
            raise ConfigurationError(message, hint="leave it out, or give SQLAlchemy's URL with the driver's parameters")
    if user is not None:
        secret = "" if password is None else f":{quote_plus(password)}"
        authority = f"{quote_plus(user)}{secret}@{authority.rpartition('@')[2]}"
    text = f"{backend}://{authority}{parts.path or '/'}"
    return f"{text}?{urlencode(query)}" if query else text


def _charset(name: str) -> str:
    return "utf8mb4" if name.lower().replace("-", "") == "utf8" else name
