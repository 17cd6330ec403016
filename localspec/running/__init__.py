"""From a name to a running model: files, downloads, memory, loading."""
