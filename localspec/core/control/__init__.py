"""The draft length and the proposer of each round: acceptance, costs, depth."""
