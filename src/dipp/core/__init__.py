"""The integers: everything that the certificate rests on, and nothing that needs a framework.

| module | what it is |
|---|---|
| `geometry` | height, width and channels of a picture |
| `unit`, `units` | what a certificate protects: the face of a public partition of a picture's coordinates; its kinds |
| `latents` | the shape of a picture's latents, and the one unit that they can certify |
| `regions` | declared regions as a unit |
| `randomness` | the common randomness that both sides share; the one source of private bytes |
| `beacon` | a published random value that is mixed into the public seed |
| `selection` | integer scores in, one index out, by the exact law: the privacy-critical core |
| `signal` | the one mapping between pixels and [−1, 1] |
| `window` | stored values of more than eight bits to pixels |
| `arithmetic`, `laws` | pixels to integer shifts; draws and shifts to integer scores |
| `channels` | the noise laws, their cost in ε and in bits |
| `masks` | who is touched when |
| `chunking` | which coordinates are coded together |
| `entropy` | indices to bytes and back |
| `columns` | the public numbers of steps as files list them |
| `code` | the face of a code |
| `step`, `steps`, `plan` | the face of a step; the kinds of steps; everything public about an encoding |
| `closest` | the draw among the closest candidates, at a price that no score can change, with its proof |
| `price`, `outcomes` | what a draw is priced from; the exact law of an index |
| `arrays` | arrays of NumPy and tensors of PyTorch alike |
| `words` | numbers of things in words |
"""
