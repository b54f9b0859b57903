"""Display of values, columns, messages and live updates."""
