"""Lines of a watched folder by Spark's own source, whose epochs can be run again with the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystate.common import Types


def lines_by_spark(env: Any, folder: Path, uid: str, most_files: int | None = None) -> Any:
    reader = env.spark.readStream if most_files is None else env.spark.readStream.option("maxFilesPerTrigger", most_files)
    return env.from_data_frame(reader.text(str(folder)), uid).uid(uid).map(lambda row: row[0], Types.STRING())
