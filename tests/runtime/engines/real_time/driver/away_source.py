"""A source whose other side is away for a while: its program is shipped to slots, so it has a module of its own."""

from pathlib import Path

from pystate.common.errors import ExternalSystemError
from pystate.connectors.generated.number_sequence import NumberSequenceSource


class AwaySource(NumberSequenceSource):
    """Numbers of a system that answers from the third question on: the first is asked before there is an attempt."""

    def __init__(self, folder):
        super().__init__(1, 5)
        self.folder = folder

    def _ask(self, who):
        asked = Path(self.folder)
        asked.mkdir(exist_ok=True)
        number = len(list(asked.iterdir()))
        (asked / f"{number}-{who}").touch()
        if number < 2:
            raise ExternalSystemError(f"Nobody answers question {number}.")

    def check_start(self):
        self._ask("check")

    def create_enumerator(self, context):
        self._ask("enumerator")
        return super().create_enumerator(context)


def reading(folder):
    def program(environment):
        environment.from_source(AwaySource(str(folder)), None, "numbers").uid("numbers").print()

    return program
