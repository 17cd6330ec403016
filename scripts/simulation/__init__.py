"""A simulation of the depth controller on recorded texts and modelled hardware."""
