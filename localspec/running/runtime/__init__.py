"""Names turned into running models."""
