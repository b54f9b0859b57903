"""Programs for the development of the package, except tests."""
