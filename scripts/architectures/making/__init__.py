"""Programs that make model folders and files, in an environment with torch."""
