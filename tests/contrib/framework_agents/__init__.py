"""Tests of the adapters for agents of other frameworks."""
