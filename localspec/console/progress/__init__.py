"""Progress of what takes long: bars, lines, the time that is left."""
