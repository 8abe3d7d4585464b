"""Prefix and suffix of the names of part files."""

from __future__ import annotations

from pystate.common.errors import JobGraphError


class OutputFileConfig:
    """The prefix and the suffix of the names of part files.

    Args:
        part_prefix: The prefix.
        part_suffix: The suffix, such as ".csv".

    Raises:
        JobGraphError: It isn't valid in a file name, or would hide the files from readers.
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
        """Return a builder with Flink's default names, `part-...`."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix."""
        return self._prefix

    def get_part_suffix(self) -> str:
        """Return the suffix."""
        return self._suffix

    class OutputFileConfigBuilder:
        """Builds an `OutputFileConfig`."""

        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix."""
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix."""
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)
