"""Tools for maintainers of the catalogue."""
