"""The review queue: its list, decisions on many requests, and requests of all times."""
