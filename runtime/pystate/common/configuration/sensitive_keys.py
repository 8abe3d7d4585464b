"""Options whose values are secrets and are redacted."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "******"
"""The replacement for the value of such an option."""

# those of Flink's GlobalConfiguration.isSensitive
_PARTS = (
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
    "access-key",
    "access.key",
)
REDACTED = "(?i)" + "|".join([*(re.escape(part) for part in _PARTS), "access[.]?key"])
"""The same, and Spark's own default, as a pattern for Spark, which hides keys and values in which it finds it."""

_PLACES = ("token-file",)


def is_sensitive(key: str) -> bool:
    """Return whether the value of an option is a secret. The path of a file with a secret isn't."""
    lowered = key.lower()
    return any(part in lowered for part in _PARTS) and not lowered.endswith(_PLACES)


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Return option values with the secrets hidden."""
    return {key: HIDDEN if is_sensitive(key) else value for key, value in values.items()}
