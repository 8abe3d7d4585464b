"""The kinds of state, independent of the backend: values, lists, maps and derived kinds, each with its running epoch."""
