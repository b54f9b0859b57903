"""The request page: its forms, its actions, and decisions."""
