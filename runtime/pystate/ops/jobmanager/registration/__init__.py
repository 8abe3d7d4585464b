"""Jobs that programs elsewhere run themselves, and have registered with this job manager."""
