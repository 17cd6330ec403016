"""Tools for those who keep the catalogue."""
