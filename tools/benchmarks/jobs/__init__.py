"""Cost of a complete job: start, three steps, one decision, end, with all processes."""
