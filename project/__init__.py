"""The demo project: graphs, sample input for three of them, and a command that starts the demo."""
