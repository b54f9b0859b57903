"""Tests of views for pages of a project."""
