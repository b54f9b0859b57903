"""Soak test: two machines under load for hours, with injected faults."""
