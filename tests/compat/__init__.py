"""LangGraph as the oracle: the same graphs, inputs and answers in both engines."""
