"""This machine: free memory, atomic writes, fingerprints of files."""
