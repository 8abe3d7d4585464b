"""Values as text and as plain data."""
