"""The graph engine: plain Python, no Django, no database, no clock but the one it is given."""
