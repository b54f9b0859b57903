"""The graph engine: plain Python without Django, without its own database and clock."""
