"""The demo project: graphs, input for three of them, and a command that runs them."""
