"""The demo project: graphs, input for three of them, and one command that runs it."""
