"""A folder on the path of Spark's Python workers on this machine, whose `sitecustomize` runs when they start."""

from pathlib import Path

FOLDER = Path(__file__).parent
