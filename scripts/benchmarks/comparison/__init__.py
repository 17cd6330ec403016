"""The parts of `scripts/bench peers`, which compares LocalSpec with other servers."""
