"""The page of one request: its forms, its actions, and the decision on it."""
