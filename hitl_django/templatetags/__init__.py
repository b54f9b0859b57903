"""Template tags and filters of this app."""
