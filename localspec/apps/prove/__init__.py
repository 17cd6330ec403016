"""A check, on the user's own pair and machine, that speculation changes nothing."""
