"""Builds a release: the packages, their bill of materials, and the release notes."""
