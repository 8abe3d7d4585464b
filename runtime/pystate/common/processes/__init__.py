"""Processes and sockets of this machine: connections between our processes, Java, load, memory."""
