"""The program's own code: what is taken of it, what can't be pickled, where it failed."""
