"""Attacks on real servers: what is sent, what is answered, and what it may cost at the most."""
