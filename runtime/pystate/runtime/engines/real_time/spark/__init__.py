"""The real-time engine on Spark: one query whose stages run side by side and carry frames from slot to slot."""
