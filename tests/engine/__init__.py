"""Tests of the engine alone, without a database or a clock."""
