"""The graph engine: plain Python without Django, database access or a clock."""
