"""The real-time engine: records flow from slot to slot, with barriers in the stream."""
