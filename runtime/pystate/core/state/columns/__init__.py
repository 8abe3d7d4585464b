"""Byte strings and the Arrow types of values, for keys and values that are read and written column by column."""
