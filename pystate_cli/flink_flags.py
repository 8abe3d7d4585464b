"""Options of the flink client that mean nothing here, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

_JAVA = "jobs are Python programs; there are no classes and jars"
_REQUIREMENTS = "install them where pystate is installed; on a cluster ship an environment with -pyarch, see docs/cluster.md"
_CLIENT = "the program runs in the Python that pystate itself runs in; -pyexec names that of Spark's workers"
_PATHS = "-pyfs ships modules, -pyarch whole environments"
_CLUSTERS = "another job manager is named by -m HOST:PORT, or by its PYSTATE_HOME"

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
}
"""Name -> what to do instead. After `flink --help` of Flink 2.3."""


def flag_without_meaning(words: Sequence[str], known: Sequence[str]) -> tuple[str, str] | None:
    """Return the first option of Flink's that has no meaning here, and what to do instead.

    Args:
        words: The command line.
        known: The options that the command has.
    """
    for word in words:
        name = word.partition("=")[0]
        if name in FLAGS_WITHOUT_MEANING and name not in known:
            return name, FLAGS_WITHOUT_MEANING[name]
    return None
