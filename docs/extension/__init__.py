"""Generators of the reference: one module per part, and the directives.

Only ``directives`` depends on Sphinx; all other modules return Markdown.
"""
