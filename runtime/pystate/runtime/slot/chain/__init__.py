"""A task at work: from batches of rows to calls of its functions, and their watermarks."""
