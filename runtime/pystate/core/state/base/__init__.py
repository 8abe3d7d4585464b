"""What all state backends share: keys, serializers, the canonical snapshot file, the backend interface."""
