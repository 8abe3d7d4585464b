"""What `pystate doctor` looks at: one module per place where something can be wrong."""
