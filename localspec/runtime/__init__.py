"""From a name to a running model."""
