"""Comparison with LangGraph: the same graphs, inputs and responses in both engines."""
