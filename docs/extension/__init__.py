"""The reference that is made from the code: one module for each part, and the directives for them.

Only ``directives`` knows Sphinx; all others return Markdown.
"""
