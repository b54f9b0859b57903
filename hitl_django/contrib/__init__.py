"""Optional apps and integrations of other packages.

The core doesn't import any of these packages.
"""
