"""Flink's options that are rejected, since ignoring them would break a guarantee.

TLS that is not spoken, a command that is not forbidden, results that come out otherwise, data that goes elsewhere. A value
that asks for nothing of the kind passes with the reason in `keys_without_effect`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.configuration.keys_without_effect import why_without_effect

_ON, _OFF = frozenset({"true"}), frozenset({"false"})


@dataclass(frozen=True)
class Refusal:
    """The reason why an option is rejected.

    Attributes:
        why: What would not be so.
        hint: What to do instead.
        values: The values that are refused, in lower case; None for all.
    """

    why: str
    hint: str
    values: frozenset[str] | None = None


_BETWEEN_PROCESSES = Refusal(
    "only security.ssl.internal.enabled encrypts what goes between the processes of a job",
    "set security.ssl.internal.enabled",
    _ON,
)
_REST_TLS = Refusal(
    "TLS is switched on for the REST endpoint and for the processes of jobs one by one",
    "set security.ssl.rest.enabled with pystate.security.ssl.rest.certificate and .key, and security.ssl.internal.enabled",
    _ON,
)
_CLIENT_CERTIFICATES = Refusal(
    "clients are told by a token, not by certificates", "leave it out, and set pystate.rest.token-file", _ON
)
_PINNED = Refusal("no certificate is pinned by its fingerprint", "leave it out, and set pystate.security.ssl.rest.ca")
_PINNED_INTERNAL = Refusal(
    "no certificate is pinned by its fingerprint",
    "leave it out: between the processes of a job nothing but pystate.security.ssl.internal.certificate is trusted",
)
_OPEN = Refusal(
    "whoever may ask the job manager may submit and cancel",
    "leave it out, and let a reverse proxy refuse these requests (docs/security.md)",
    _OFF,
)
_S3 = Refusal(
    "pystate has an S3 client of its own without such a setting, and encryption or roles must not be lost in silence",
    "leave it out; conf/flink-conf.toml lists the s3.* that are honoured, and AWS's own variables and files count",
)
_NO_STORAGE = Refusal(
    "there is no such file system here", "leave it out; checkpoints and savepoints go to folders, s3:// or hdfs://"
)
_HADOOP_FILES = Refusal(
    "single files of Hadoop's settings are not read, and another cluster might be met",
    "set env.hadoop.conf.dir to their folder",
)

REFUSED_KEYS: dict[str, Refusal] = {
    "state.backend.rocksdb.timer-service.factory": Refusal(
        "timers of the rocksdb state backend are rows of RocksDB, of which the first ones are kept in memory",
        "leave it out, and set state.backend.rocksdb.timer-service.cache-size for more of them; hashmap has all in memory",
        frozenset({"heap"}),
    ),
    "security.ssl.enabled": _REST_TLS,
    "web.ssl.enabled": _REST_TLS,
    "jobmanager.web.ssl.enabled": _REST_TLS,
    "akka.ssl.enabled": _BETWEEN_PROCESSES,
    "pekko.ssl.enabled": _BETWEEN_PROCESSES,
    "security.ssl.rest.authentication-enabled": _CLIENT_CERTIFICATES,
    "security.ssl.rest.cert.fingerprint": _PINNED,
    "security.ssl.internal.cert.fingerprint": _PINNED_INTERNAL,
    "web.submit.enable": _OPEN,
    "web.cancel.enable": _OPEN,
    "web.rescale.enable": _OPEN,
    "jobmanager.web.submit.enable": _OPEN,
    "fs.hdfs.hdfsdefault": _HADOOP_FILES,
    "fs.hdfs.hdfssite": _HADOOP_FILES,
    "s3.": _S3,
    "s3a.": _S3,
    "fs.s3a.": _S3,
    "fs.s3.": _S3,
    "presto.s3.": _S3,
    "fs.azure.": _NO_STORAGE,
    "fs.gs.": _NO_STORAGE,
    "gs.": _NO_STORAGE,
    "fs.oss.": _NO_STORAGE,
    "fs.obs.": _NO_STORAGE,
    "fs.cosn.": _NO_STORAGE,
}
"""Key, or the beginning of keys where it ends with a dot -> why. Keys that are honoured come first."""


def refusal_of(key: str, value: str) -> Refusal | None:
    """Return why an option with that value is rejected; None if it isn't."""
    found = REFUSED_KEYS.get(key)
    if found is None and why_without_effect(key) is None:
        starts = (start for start in REFUSED_KEYS if start.endswith(".") and key.startswith(start))
        found = next((REFUSED_KEYS[start] for start in starts), None)
    if found is None or (found.values is not None and value.strip().lower() not in found.values):
        return None
    return found
