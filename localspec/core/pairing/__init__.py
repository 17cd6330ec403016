"""Target and draft model: how their vocabularies fit, and tokens from one to the other."""
