"""Planning: everything public that a budget is spent on, chosen from public data.

| module | what it is |
|---|---|
| `table`, `residuals` | the public cost table of a denoiser, and its residuals on sensing chains |
| `planner`, `knapsack` | along timesteps: the plans of fewest bits within a budget |
| `sensing`, `tilts` | clipped sensing: the plan of the best picture within a budget and a rate; tilts and gains |
| `levels` | at which resolution a step of sensing is predicted |
| `questions` | questions to units: the plan of the best picture within a budget |
| `regions` | questions to regions: how a budget is divided among draws |
| `presets` | recipes: sensing in so many network calls, or a coding along timesteps with the sizes of its code |
| `verification` | whether a release is what a model's public table gives |
"""
