"""Builds a release: the packages, what they are made of, and what is new in them."""
