"""Runs the tests on every combination of supported versions."""
