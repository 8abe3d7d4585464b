"""What `pystate doctor` says of Kafka: whether Spark's connector is named, and fits."""

from __future__ import annotations

import pyspark
import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.connectors.finding import Health
from pystate.connectors.kafka import kafka_check


@pytest.mark.parametrize(
    ("settings", "health", "text"),
    [
        ({}, Health.OK, f"-Dspark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"),
        (
            {"spark.jars.packages": f"a:b:1,org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"},
            Health.OK,
            f"reading: org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
        ),
        ({"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:3.5.0"}, Health.WARN, "is for Spark 3.5.0"),
        ({"spark.jars": "/x/spark-sql-kafka-0-10_2.13-3.5.0.jar"}, Health.WARN, "is for Spark 3.5.0"),
        (
            {"spark.jars": f"/x/spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar,/x/kafka-clients-3.9.2.jar"},
            Health.WARN,
            "without spark-token-provider-kafka-0-10;",
        ),
    ],
)
def test_the_connector_to_kafka(settings, health, text):
    found = kafka_check.check_kafka(Configuration(settings))
    assert (found.health, found.name) == (health, "kafka")
    assert text in found.text
