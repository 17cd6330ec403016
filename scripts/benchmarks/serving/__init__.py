"""The parts of `scripts/bench server`, a module for each table."""
