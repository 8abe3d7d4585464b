"""Operator state: state of a subtask rather than of a key. It lives in memory, whatever the state backend is."""
