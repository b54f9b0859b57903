"""Runs the tests on every combination of the versions that are supported."""
