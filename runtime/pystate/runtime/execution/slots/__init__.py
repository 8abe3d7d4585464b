"""The slots of an attempt: registration, calls to slots, and detection of lost slots."""
