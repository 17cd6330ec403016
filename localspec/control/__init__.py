"""How many tokens to draft, and by which proposer: acceptance, costs, depth."""
