"""From job graph to streaming query: the only place, with the driver, that knows Spark."""
