"""Long texts that slots had to give up: in memory, and on disk."""
