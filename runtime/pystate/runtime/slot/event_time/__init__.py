"""The clock and the event time of a chain, and the watermarks of its input channels."""
