"""The formats of types without parts, by type."""

from __future__ import annotations

from pystate.common.type_info import TypeKind
from pystate.core.state.formats.number_formats import NUMBERS
from pystate.core.state.formats.scalar_format import Scalar
from pystate.core.state.formats.text_formats import TEXTS
from pystate.core.state.formats.time_formats import TIMES

SCALARS: dict[TypeKind, Scalar] = {form.kind: form for form in (*NUMBERS, *TEXTS, *TIMES)}
