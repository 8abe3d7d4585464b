"""Side outputs, under PyFlink's module name."""

from pystate.common.not_there import not_there
from pystate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from pystate.core.api.output_tag import OutputTag

__all__ = ["OutputTag", "RowTypeInfo", "TypeInformation", "Types", "get_gateway"]

get_gateway = not_there(
    "get_gateway", "there is no Java code of Flink's to talk to.", "env.spark.sparkContext has the gateway to Spark's"
)
