"""`pystate-operator`: keeps the jobs of one namespace as its resources `PystateJob` say."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

from pystate.common.configuration.file_system_settings import initialize
from pystate.common.configuration.groups.service_options import ClientOptions
from pystate.common.configuration.loaded_configuration import LoadedConfiguration, load_configuration
from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome
from pystate_cli.client.job_manager import find_job_manager
from pystate_cli.client.rest_client import RestClient
from pystate_operator.jobs import RestJobs
from pystate_operator.reconciler import Reconciler

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class MissingExtraError(PystateError):
    """What an operator needs is not installed."""


def arguments_of(words: list[str]) -> argparse.Namespace:
    """Return what the words of a command ask for."""
    parser = argparse.ArgumentParser("pystate-operator", description=__doc__)
    parser.add_argument("-n", "--namespace", help="the namespace of the resources; in a pod its own")
    parser.add_argument("-m", "--jobmanager", metavar="HOST:PORT", help="the job manager, instead of the one that leads")
    parser.add_argument("--conf-dir", help="the folder of flink-conf.toml, instead of PYSTATE_CONF_DIR")
    parser.add_argument("--interval", type=float, default=10.0, metavar="SECONDS", help="between two looks at what rests")
    parser.add_argument("--liveness", metavar="URL", help="where to answer probes, such as http://0.0.0.0:8080/healthz")
    return parser.parse_args(words)


def run(words: list[str]) -> None:
    """Run an operator until it is told to end.

    Raises:
        PystateError: It can't start.
    """
    arguments = arguments_of(words)
    try:
        import kopf
        import kubernetes
    except ImportError as error:
        message = f"An operator needs kopf and the client of Kubernetes: {error}."
        raise MissingExtraError(message, hint="pip install 'pystate-spark[operator]'") from error
    from pystate_operator.handlers import Handlers, tell
    from pystate_operator.kubernetes_api import KubernetesResources

    namespace = arguments.namespace
    if namespace is None and _POD_NAMESPACE.is_file():
        namespace = _POD_NAMESPACE.read_text("utf-8").strip()
    if namespace is None:
        message = "There is no telling which namespace's resources are meant."
        raise PystateError(message, hint="pystate-operator --namespace NAMESPACE")
    home = PystateHome()

    def configure(options: Mapping[str, str]) -> LoadedConfiguration:
        return load_configuration(arguments.conf_dir, options, home=home)

    def connect() -> RestClient:
        configuration = configure({}).configuration
        timeout = configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
        return find_job_manager(home, arguments.jobmanager, timeout, configuration)

    initialize(configure({}).configuration)
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    reconciler = Reconciler(KubernetesResources(tell), RestJobs(connect, configure))
    handlers = Handlers(reconciler, arguments.interval)
    kopf.configure(verbose=False)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for each write of a status
    kopf.run(registry=handlers.registry, standalone=True, namespaces=[namespace], liveness_endpoint=arguments.liveness)


def main() -> int:
    """Run `pystate-operator`; return its exit code."""
    try:
        run(sys.argv[1:])
    except PystateError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
