"""Reading Kafka by Spark's connector, and requests to brokers through its Java client."""
