"""The bytes of each type, a file per family of types: as a value and as a key, one by one and by columns."""
