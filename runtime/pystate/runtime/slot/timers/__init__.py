"""Timer services: the registration and firing of timers."""
