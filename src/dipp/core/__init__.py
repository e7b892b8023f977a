"""The integer core: everything that a certificate rests on. It needs NumPy alone.

| module | what it is |
|---|---|
| `geometry` | height, width and channels of a picture |
| `unit`, `units` | what a certificate protects: a public partition of a picture's coordinates, and its kinds |
| `latents` | the shape of a picture's latents, and the one unit that they can certify |
| `regions` | declared regions as a unit |
| `randomness` | the common randomness that sender and receiver share; the only source of private bytes |
| `beacon` | a published random value that is mixed into the public seed |
| `selection` | the private draw of one index from integer scores, by an exact law: the privacy-critical core |
| `signal` | the mapping between pixels and [−1, 1] |
| `window` | the mapping of stored values of more than eight bits to pixels |
| `arithmetic`, `laws` | how pixels become integer shifts; how draws and shifts become integer scores |
| `channels` | the noise laws, with their cost in ε and in bits |
| `masks` | which coordinates each step touches |
| `chunking`, `unit_deals` | which coordinates are coded together: shuffled ones, or those of a unit |
| `entropy`, `exponents` | the coding of indices as bytes; how likely it takes small indices to be |
| `fixed_length` | equally likely indices as bytes |
| `columns` | the public numbers of steps, as files list them |
| `code`, `sensitivity` | the interface of a code; codes that pay for how far a coordinate moves their scores |
| `step`, `steps`, `plan` | the interface of a step; the kinds of steps; everything public about an encoding |
| `closest` | the draw among the closest candidates, at a price that no score can change, with its proof |
| `price`, `outcomes` | what a draw is priced from; the exact law of an index |
| `arrays` | operations on NumPy arrays and PyTorch tensors alike |
| `words` | counts in words |
"""
