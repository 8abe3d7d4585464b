"""User code: capturing it, finding what can't be pickled, and where it failed."""
