"""The execution engines, one package each: the parts that run in the driver, in slots and in Spark."""
