"""Models by name and by path, on this disk; the trial that each file passes before it is used."""
