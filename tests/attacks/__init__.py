"""Attacks on real servers: requests, expected responses and maximum costs."""
