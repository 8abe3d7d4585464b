"""What processes print, in files whose size has a bound."""
