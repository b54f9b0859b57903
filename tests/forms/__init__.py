"""Tests of forms for pages of a project."""
