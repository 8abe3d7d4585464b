"""The operators that run sources and sinks in slots, and how a source's elements are fed to them."""
