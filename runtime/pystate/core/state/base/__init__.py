"""The common parts of all state backends: keys, serializers, the canonical snapshot file, the backend interface."""
