"""The test suite, which is also an installed app, so that its graphs are found like those of a
project.
"""
