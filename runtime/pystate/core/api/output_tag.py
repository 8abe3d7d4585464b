"""Side outputs: the elements a function emits besides its main output, under the name of a tag."""

from __future__ import annotations

from typing import Any, ClassVar

from pystate.common.errors import JobGraphError
from pystate.common.text.plain_text import check_text
from pystate.common.type_info import TypeInformation


class OutputTag:
    """Names a side output. A function yields `tag, value`, and `get_side_output(tag)` is the stream of these values.

    Args:
        tag_id: The name; two tags of one name are the same side output.
        type_info: The type of its elements; None for untyped.

    Raises:
        JobGraphError: The name isn't a string, or is empty.

    Attributes:
        any_made: Whether this process has created a tag. Before that no function can emit one, and results aren't checked,
            which is a tenth of what a record costs.
        tag_id: As given.
        type_info: As given.
    """

    __slots__ = ("tag_id", "type_info")

    any_made: ClassVar[bool] = False
    tag_id: str
    type_info: TypeInformation | None

    def __new__(cls, *_arguments: Any, **_named: Any) -> OutputTag:
        """Create a tag; also called on unpickling."""
        if not OutputTag.any_made:  # setting it makes the interpreter look the class's attributes up anew
            OutputTag.any_made = True
        return super().__new__(cls)

    def __init__(self, tag_id: str, type_info: TypeInformation | None = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            message = f"The name of an OutputTag is a text that is not empty, not {tag_id!r}."
            raise JobGraphError(message)
        check_text(tag_id, "the name of an OutputTag", JobGraphError)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            message = f"The type of the OutputTag {tag_id!r} is one of Types, not {type_info!r}."
            raise JobGraphError(message, hint='write OutputTag("name", Types.STRING())')
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        """Return whether another tag names the same side output."""
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        """Return a hash of the name."""
        return hash(self.tag_id)

    def __repr__(self) -> str:
        """Return the tag with its name."""
        return f"OutputTag({self.tag_id!r})"
