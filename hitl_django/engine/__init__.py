"""The graph engine. It is plain Python without Django, and has no database or clock of its own."""
