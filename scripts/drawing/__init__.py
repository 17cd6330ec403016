"""The pictures of the README, drawn from figures and recordings of this repository."""
