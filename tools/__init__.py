"""Programs for development of the package, other than tests."""
