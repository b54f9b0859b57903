"""The documentation: Markdown pages, and a reference generated from the code."""
