"""The command `localspec tune`: the fastest way to load a model here, and what drafts cost."""
