"""Recorder of LangGraph's server, for the differential test of the LangGraph-compatible API."""
