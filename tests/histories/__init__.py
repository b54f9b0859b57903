"""Threads saved by this and earlier versions: each must still load, resume and finish."""
