"""Pure decisions about checkpoints, and the durable form of checkpoints: metadata, handles, storage."""
