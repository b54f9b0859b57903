"""Recorded responses of LangGraph's server to the methods of its SDKs.

``script.json`` lists the calls. ``python -m tools.langgraph_recordings`` makes them with several
versions of the SDKs, and writes one recording per version. ``differences.toml`` lists the
differences between these responses and the responses of the LangGraph-compatible API.
"""
