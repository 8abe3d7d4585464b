"""The Spark side of the real-time engine: one query whose stages run concurrently and carry frames from slot to slot."""
