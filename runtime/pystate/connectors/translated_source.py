"""Sources that each engine reads in its own way: by Spark, or in slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystate.common.type_info import TypeInformation
    from pystate.common.watermark_strategy import WatermarkStrategy
    from pystate.core.api.transformations import SourceTransformation


class TranslatedSource(ABC):
    """A source for `from_source()` that is no `Source` itself: it says how it is read."""

    @abstractmethod
    def to_step(
        self,
        spark: Callable[[], SparkSession],
        name: str,
        strategy: WatermarkStrategy | None,
        type_info: TypeInformation | None,
    ) -> SourceTransformation:
        """Return the step that reads the source, to be called once per source of a program.

        Args:
            spark: Returns the session; it isn't asked before an engine reads the source.
            name: The name of the source.
            strategy: Assigns timestamps and makes watermarks, if any.
            type_info: The type of the elements, if the program declares it.
        """
