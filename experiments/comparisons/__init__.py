"""Methods with which dipp is compared. Nothing of dipp needs them.

| module | what it has |
|---|---|
| `channels` | logistic and Huber noise as channels |
| `gaussian` | the (ε, δ) of Gaussian diffusion without a code |
| `unclipped` | presets along timesteps with the sign channel, as they were before residuals were clipped |
| `privunit` | PrivUnitG, one private Gaussian answer about a vector |
| `units` | DP-Pix and PrivUnitG for each unit of a picture, with a network or without |
"""
