"""What part files are called."""

from __future__ import annotations

from pystate.common.errors import JobGraphError


class OutputFileConfig:
    """How the names of part files begin and end.

    Args:
        part_prefix: How they begin.
        part_suffix: How they end, such as ".csv".

    Raises:
        JobGraphError: It can't stand in a name, or would hide the files from their readers.
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        for text in (part_prefix, part_suffix):
            if not isinstance(text, str) or "/" in text or "\0" in text:
                message = f"{text!r} can't stand in the name of a file."
                raise JobGraphError(message, where="OutputFileConfig")
        if part_prefix[:1] in ("", ".", "_"):
            message = (
                f"Part files can't begin with {part_prefix!r}: readers skip names that begin with a dot or an underscore."
            )
            raise JobGraphError(message, where="OutputFileConfig", hint="begin with a letter")
        self._prefix = part_prefix
        self._suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin with Flink's names, `part-...`."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return how the names begin."""
        return self._prefix

    def get_part_suffix(self) -> str:
        """Return how the names end."""
        return self._suffix

    class OutputFileConfigBuilder:
        """Collects the two."""

        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Say how the names begin."""
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Say how the names end."""
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return both."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)
