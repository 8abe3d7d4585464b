"""One attempt of a job as its driver sees it: its slots, what they restore, and the interface to an engine."""
