"""llama.cpp for this machine: which build fits, made or fetched, and installed.

The standard library is enough for it: scripts use it before anything is installed.
"""
