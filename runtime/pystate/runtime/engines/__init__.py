"""The engines that move records: one folder each, with what runs in the driver, in slots and in Spark."""
