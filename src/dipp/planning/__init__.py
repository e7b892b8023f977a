"""Choose the steps of an encoding within a budget, from public numbers alone.

| module | what it is |
|---|---|
| `table`, `residuals` | the public error table of a denoiser, and its residuals on sensing chains |
| `planner`, `knapsack` | plans along timesteps, which take the fewest bits within a budget |
| `sensing`, `tilts` | plans of clipped sensing, which show the best picture within a budget and a rate |
| `sensing_choices` | the choices that such a plan is made from, as columns of numbers |
| `levels` | the resolution at which a step of sensing is predicted |
| `questions` | plans of questions to units, which show the best picture within a budget |
| `regions` | plans of questions to regions |
| `presets` | named recipes for plans |
| `verification` | checks that the public parameters of an encoding follow from the public table of its model |
"""
