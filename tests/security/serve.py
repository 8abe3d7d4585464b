"""A job manager whose drivers are fakes: `serve.py HOME OPTIONS-AS-JSON DRIVER-COMMAND...`."""

from __future__ import annotations

import json
import logging
import sys

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.service_options import RestOptions
from pystate.common.files.home import PystateHome
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.server import serve

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    configuration = Configuration(json.loads(sys.argv[2]))
    home = PystateHome(sys.argv[1])
    address = configuration.get(RestOptions.ADDRESS)
    serve(home, address, configuration.get(RestOptions.PORT), DriverLauncher(home, sys.argv[3:]), configuration)
