"""What sinks to services share: requests are buffered, sent in batches by several threads, and tried again."""
