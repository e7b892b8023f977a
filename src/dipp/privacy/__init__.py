"""Privacy: what the selections cost, in pure ε, ρ and (ε, δ), and what a budget allows."""
