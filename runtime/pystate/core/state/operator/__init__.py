"""Operator state: state of a subtask rather than of a key. It is held in memory with every state backend."""
