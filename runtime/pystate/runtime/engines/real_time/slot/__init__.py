"""The real-time engine in a slot: channels, barriers in the stream, a thread per subtask."""
