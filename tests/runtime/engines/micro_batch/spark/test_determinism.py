"""What may come out otherwise when Spark runs a stage again is told, with the columns and the keys that come from it."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import KeyByTransformation, OneInputTransformation, SourceTransformation
from pystate.runtime.engines.micro_batch.spark.determinism import non_determinism, non_determinism_notices


@pytest.fixture(scope="module")
def lines(spark, tmp_path_factory):
    return spark.readStream.text(str(tmp_path_factory.mktemp("in")))


def dice():
    return F.udf(lambda: random.random(), "double").asNondeterministic()


@pytest.mark.parametrize(
    ("build", "expressions", "columns"),
    [
        (lambda lines: lines.withColumn("n", F.rand()), ("rand()",), {"n"}),
        (lambda lines: lines.withColumn("n", F.expr("uuid()")), ("uuid()",), {"n"}),
        (
            lambda lines: lines.withColumn("n", F.monotonically_increasing_id()),
            ("monotonically_increasing_id()",),
            {"n"},
        ),
        (lambda lines: lines.withColumn("n", dice()()), ("the UDF <lambda>",), {"n"}),
        (lambda lines: lines.withColumn("n", F.rand()).withColumn("m", F.col("n") * 2).drop("n"), ("rand()",), {"m"}),
        (lambda lines: lines.filter(F.rand() < 0.5), ("rand()",), set()),
        (lambda lines: lines.select(F.explode(F.array(F.rand(), F.rand())).alias("n")), ("rand()",), {"n"}),
        (lambda lines: lines.union(lines.select(F.expr("uuid()").alias("value"))), ("uuid()",), {"value"}),
        (lambda lines: lines.select(F.concat("value", F.expr("uuid()"), F.rand()).alias("n")), ("uuid()", "rand()"), {"n"}),
        (lambda lines: lines.withColumn("at", F.current_timestamp()), (), set()),
        (lambda lines: lines.withColumn("at", F.expr("now()")).withColumn("file", F.input_file_name()), (), set()),
        (lambda lines: lines.withColumn("n", F.udf(len, "int")("value")), (), set()),
        (lambda lines: lines.withColumn("n", F.xxhash64("value")), (), set()),
    ],
)
def test_what_is_not_deterministic_is_named_with_its_columns(lines, build, expressions, columns):
    found = non_determinism(build(lines))
    assert found.expressions == expressions
    assert found.columns == columns


def test_the_batch_side_of_a_join_is_looked_at_too(spark, lines):
    other = spark.range(3).selectExpr("cast(id AS STRING) AS value", "rand() AS n")
    found = non_determinism(lines.join(other, "value"))
    assert (found.expressions, found.columns) == (("rand()",), {"n"})


def test_a_notice_says_which_key_comes_from_it_and_what_to_do(lines):
    source = SourceTransformation("words")
    frame = lines.withColumn("id", F.expr("uuid()")).withColumn("n", F.rand())
    kept = OneInputTransformation("Filter", (source,), kind=OperatorKind.FILTER)
    KeyByTransformation("KeyBy", (kept,), column="id")
    KeyByTransformation("KeyBy", (OneInputTransformation("Map", (source,), kind=OperatorKind.MAP),), column="n")
    (notice,) = non_determinism_notices(source, frame)
    assert notice.startswith("The source 'words' has uuid(), rand() in its DataFrame, and the key 'id' comes from it: ")
    assert "xxhash64()" in notice


def test_a_notice_without_a_key_and_none_at_all(lines):
    source = SourceTransformation("words")
    KeyByTransformation("KeyBy", (source,), column="value")
    (notice,) = non_determinism_notices(source, lines.withColumn("n", F.rand()))
    assert notice.startswith(
        "The source 'words' has rand() in its DataFrame: if Spark runs one of its tasks again, a row may "
    )
    assert non_determinism_notices(source, lines) == []
