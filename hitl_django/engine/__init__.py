"""The graph engine. It is plain Python without Django, database access or a clock."""
