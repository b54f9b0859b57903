"""The demo project: three graphs, their input, and one command that runs all of it."""
