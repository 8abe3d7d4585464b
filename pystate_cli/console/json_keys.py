"""The keys of JSON that commands print: camelCase, whatever the spelling in the REST answer or the file.

Flink's REST mixes three spellings (`start-time`, `end_to_end_duration`, `exceptionHistory`), and a job's id is `jid`
here and `job_id` there. The output of commands has only one.
"""

from __future__ import annotations

import re
from typing import Any

_WORDS = re.compile(r"[a-z][a-z0-9]*(?:[-_][A-Za-z0-9]+)+")
_NAMES = {"jid": "jobId"}
DATA_KEYED = frozenset({"configuration", "taken", "renamed", "withoutEffect", "refused", "userConfig"})
"""What stands below these is keyed by names of somebody else's, as those of settings."""


def camel_case(name: str) -> str:
    """Return a key in camelCase; keys in none of the three spellings are unchanged."""
    if name in _NAMES:
        return _NAMES[name]
    if not _WORDS.fullmatch(name):
        return name
    first, *rest = re.split("[-_]", name)
    return first + "".join(word[0].upper() + word[1:] for word in rest)


def with_our_keys(data: Any) -> Any:
    """Return JSON-able data with all keys in camelCase."""
    if isinstance(data, dict):
        return {
            (ours := camel_case(str(name))): value if ours in DATA_KEYED else with_our_keys(value)
            for name, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [with_our_keys(each) for each in data]
    return data
