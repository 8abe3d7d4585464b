"""The logs of processes, in files of bounded size."""
