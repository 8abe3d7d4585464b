"""The foundation of all other packages: state, snapshots, file systems, records, metrics. Independent of pyspark."""
