"""Bridges to other packages; nothing else in the package imports those."""
