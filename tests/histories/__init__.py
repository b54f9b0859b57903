"""Threads saved by this and earlier versions, which every version must load, resume and finish."""
