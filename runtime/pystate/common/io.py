"""Input formats, under PyFlink's module name."""

from pystate.common.not_there import not_there

InputFormat = not_there(
    "InputFormat", "it is a Java class of Flink's.", "read files with FileSource, all else with env.from_data_frame(...)"
)
