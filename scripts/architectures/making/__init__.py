"""Makes model folders and files; runs in an environment of its own, with torch."""
