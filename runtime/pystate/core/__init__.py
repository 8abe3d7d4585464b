"""What every wing stands on: state, snapshots, file systems, records, metrics. No pyspark, nothing of the wings above."""
