"""What `scripts/bench server` measures, a module for each table."""
