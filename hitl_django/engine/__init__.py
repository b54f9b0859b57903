"""The graph engine: plain Python without Django, a database or a clock of its own."""
