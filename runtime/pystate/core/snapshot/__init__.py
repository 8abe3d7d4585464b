"""What a checkpoint or savepoint consists of and where it lies: metadata, handles, files, locations."""
