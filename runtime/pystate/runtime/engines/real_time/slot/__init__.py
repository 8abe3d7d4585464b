"""The slot side of the real-time engine: channels, barriers in the stream, a thread per subtask."""
