"""Every key of Flink 1.11 to 2.3 is honoured, reported with a reason, or refused with one; `flink_keys.txt` lists them.

The list was made from the classes of options of the releases 1.11, 1.14, 1.17, 1.20 and 2.3: names of today and older ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.keys_without_effect import KEYS_WITHOUT_EFFECT, why_without_effect
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.configuration.options import ALL_OPTIONS, is_known, nearest_key
from pystate.common.configuration.refused_keys import REFUSED_KEYS, refusal_of
from pystate.common.errors import ConfigurationError
from pystate.common.files.home import PystateHome

KEYS = [
    re.sub("<[^>]*>", "some", line) for line in Path(__file__).with_name("flink_keys.txt").read_text().splitlines() if line
]


def load(tmp_path, settings):
    """Return what is loaded of a file with these settings."""
    lines = "".join(f'"{key}" = "{value}"\n' for key, value in settings.items())
    (tmp_path / "flink-conf.toml").write_text(lines)
    return load_configuration(tmp_path, home=PystateHome(tmp_path / "home"))


def test_the_list_is_the_whole_of_flink():
    assert len(KEYS) > 1200
    assert len(set(KEYS)) == len(KEYS)


def test_every_key_has_a_fate():
    lost = [k for k in KEYS if not is_known(k) and why_without_effect(k) is None and refusal_of(k, "true") is None]
    assert [key for key in lost if refusal_of(key, "false") is None] == []


def test_a_file_with_every_key_that_means_nothing_is_read_and_each_is_told_with_its_reason(tmp_path):
    settings = {key: "0" for key in KEYS if not is_known(key) and refusal_of(key, "0") is None}
    assert len(settings) > 1000
    loaded = load(tmp_path, settings)
    assert len(loaded.notices) == len(settings)
    for key, notice in zip(settings, loaded.notices, strict=True):
        assert notice.startswith(f"{key!r} has no effect: {why_without_effect(key)} (")
    assert not settings.keys() & loaded.configuration.key_set()


def test_a_program_may_set_them_too_and_its_job_tells_them():
    configuration = Configuration().set_string("python.fn-execution.bundle.size", "1000").set_string("my.own", "1")
    configuration.set_string("execution.batch-shuffle-mode", "ALL_EXCHANGES_BLOCKING").set_integer("akka.ask.timeout", 3)
    assert [notice.split()[0] for notice in configuration.notices()] == [
        "'python.fn-execution.bundle.size'",
        "'execution.batch-shuffle-mode'",
        "'akka.ask.timeout'",
    ]
    assert configuration.get_string("python.fn-execution.bundle.size", "") == "1000"


@pytest.mark.parametrize(
    ("key", "value", "passes"),
    [
        ("state.backend.rocksdb.timer-service.factory", "HEAP", "ROCKSDB"),
        ("security.ssl.enabled", "true", "false"),
        ("pekko.ssl.enabled", "true", "false"),
        ("akka.ssl.enabled", "true", "false"),
        ("security.ssl.rest.authentication-enabled", "true", "false"),
        ("security.ssl.rest.cert.fingerprint", "AB:CD", None),
        ("web.submit.enable", "false", "true"),
        ("web.cancel.enable", "false", "true"),
        ("s3.sse.type", "sse-kms", None),
        ("fs.s3a.server-side-encryption-algorithm", "AES256", None),
        ("fs.azure.account.key.x", "y", None),
        ("fs.hdfs.hdfssite", "/etc/hdfs-site.xml", None),
    ],
)
def test_what_must_not_be_ignored_is_an_error_from_a_file_and_from_a_program(tmp_path, key, value, passes):
    for attempt in (lambda: load(tmp_path, {key: value}), lambda: Configuration().set_string(key, value)):
        with pytest.raises(ConfigurationError, match="can't be honoured: ") as refused:
            attempt()
        assert refused.value.hint
    if passes is not None:
        assert len(load(tmp_path, {key: passes}).notices) == 1


def test_a_misspelt_key_of_a_refused_family_names_the_nearest():
    with pytest.raises(ConfigurationError) as refused:
        Configuration().set_string("s3.acess-key", "x")
    assert "did you mean 's3.access-key'?" in str(refused.value.hint)
    assert "x" not in refused.value.message.split()


@pytest.mark.parametrize("key", ["execution.checkpointing.intervall", "state.bakend.type", "pipeline.nmae", "rest.prot"])
def test_keys_that_nobody_knows_are_errors_that_name_the_nearest(tmp_path, key):
    assert why_without_effect(key) is None
    for attempt in (lambda: load(tmp_path, {key: "1"}), lambda: Configuration().set_string(key, "1")):
        with pytest.raises(ConfigurationError, match="There is no option") as unknown:
            attempt()
        assert unknown.value.hint == f"did you mean {nearest_key(key)!r}?"


def test_the_longest_beginning_gives_the_reason():
    assert why_without_effect("jobmanager.execution.failover-strategy") != why_without_effect("jobmanager.scheduler")
    assert why_without_effect("jobmanager.web.backpressure.num-samples") == why_without_effect("rest.flamegraph.enabled")
    assert why_without_effect("s3.entropy.key") is not None
    assert refusal_of("s3.entropy.key", "x") is None


def test_no_table_says_anything_about_an_option_that_is_honoured():
    assert not ALL_OPTIONS.keys() & (KEYS_WITHOUT_EFFECT.keys() | REFUSED_KEYS.keys())
