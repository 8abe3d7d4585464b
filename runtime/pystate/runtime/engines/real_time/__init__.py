"""The real-time engine: records flow from slot to slot, and barriers among them."""
