"""Which checkpoints and files are kept, which may be restored, and which are deleted."""
