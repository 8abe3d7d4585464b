from __future__ import annotations

import pytest

from pystate.common.configuration.hadoop_files import hadoop_properties
from pystate.common.errors import ConfigurationError


def test_settings_have_their_variables_replaced_and_empty_ones_are_not_there(tmp_path):
    file = tmp_path / "yarn-site.xml"
    file.write_text(
        "<configuration>"
        "<property><name>host</name><value> rm.example </value></property>"
        "<property><name>page</name><value>${host}:8088</value></property>"
        "<property><name>other</name><value>${of.another.file}/x</value></property>"
        "<property><name>round</name><value>${round}</value></property>"
        "<property><name>empty</name><value/></property>"
        "</configuration>"
    )
    assert hadoop_properties(file) == {
        "host": "rm.example",
        "page": "rm.example:8088",
        "other": "${of.another.file}/x",
        "round": "${round}",
    }
    assert hadoop_properties(tmp_path / "core-site.xml") == {}


def test_a_file_that_is_no_xml_is_named(tmp_path):
    file = tmp_path / "core-site.xml"
    file.write_text("<configuration>")
    with pytest.raises(ConfigurationError, match="Hadoop's settings can't be read") as caught:
        hadoop_properties(file)
    assert caught.value.where == str(file)
