"""Planning: everything public that a budget is spent on, chosen from public data.

| module | what it is |
|---|---|
| `table` | the public cost table of a denoiser |
| `planner`, `knapsack` | the plans of fewest bits within a budget |
| `presets` | recipes: a coding with the sizes of its code |
"""
