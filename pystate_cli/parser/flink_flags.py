"""Options of Flink's client without a meaning here, each rejected with an alternative."""

from __future__ import annotations

from collections.abc import Sequence

_JAVA = "jobs are Python programs; there are no classes and jars"
_REQUIREMENTS = "install them where pystate is installed; on a cluster ship an environment with -pyarch, see docs/cluster.md"
_CLIENT = "the program runs in the Python that pystate itself runs in; -pyexec names that of Spark's workers"
_PATHS = "-pyfs ships modules, -pyarch whole environments"
_CLUSTERS = "another job manager is named by -m HOST:PORT, or by its PYSTATE_HOME"
_SETTINGS = (
    "this command reads its settings from flink-conf.toml (./conf, PYSTATE_CONF_DIR); "
    "-D KEY=VALUE is of run, info, config, doctor and cluster start"
)
_TARGETS = "where a job runs is said once, by pystate run -t; jobs are found by -m HOST:PORT, or by PYSTATE_HOME"
_APPLICATION = "pystate list -a --json shows the Spark application of each job; where a JOBID stands, -yid names it instead"
_YARN = "resources of YARN are options of Spark: -D spark.KEY=VALUE, see docs/cluster.md"

FLAGS_WITHOUT_MEANING: dict[str, str] = {
    "-c": _JAVA,
    "--class": _JAVA,
    "-C": _JAVA,
    "--classpath": _JAVA,
    "-j": _JAVA,
    "--jarfile": _JAVA,
    "-pym": "give the program's file",
    "--pyModule": "give the program's file",
    "-pyreq": _REQUIREMENTS,
    "--pyRequirements": _REQUIREMENTS,
    "-pyclientexec": _CLIENT,
    "--pyClientExecutable": _CLIENT,
    "-pypath": _PATHS,
    "--pyPythonPath": _PATHS,
    "-z": _CLUSTERS,
    "--zookeeperNamespace": _CLUSTERS,
    "-D": _SETTINGS,
    "-t": _TARGETS,
    "--target": _TARGETS,
    "-e": _TARGETS,
    "--executor": _TARGETS,
    "-yid": _APPLICATION,
    "--yarnapplicationId": _APPLICATION,
    **dict.fromkeys(("-yD", "-yat", "-yj", "-yjm", "-ynl", "-ynm", "-yq", "-yqu", "-ys", "-yt", "-ytm", "-yz"), _YARN),
}
"""Name -> what to do instead. After `flink --help` of Flink 2.3, and the `-y` options of Flink 1.x."""

_JOINED = ("-D", "-yD", "-z")
"""Those whose value may follow without a space."""


def flag_without_meaning(words: Sequence[str], known: Sequence[str]) -> tuple[str, str] | None:
    """Return the first option of Flink's that has no meaning here, and what to do instead.

    Args:
        words: The command line.
        known: The options that the command has.
    """
    for word in words:
        name = word.partition("=")[0]
        name = next((short for short in _JOINED if word.startswith(short)), name)
        if name in FLAGS_WITHOUT_MEANING and name not in known:
            return name, FLAGS_WITHOUT_MEANING[name]
    return None
