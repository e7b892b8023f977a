"""Risk: what programs recognise, read and guess in pictures that were released, beside what the certificate allows.

Nothing here is a promise. A program that fails shows that this program fails; the bounds alone hold for all of them.
Everything is measured on pictures whose people and texts are known, so use public ones.

| module | what it is |
|---|---|
| `bounds` | what a certificate allows an attacker to recognise or guess, with proofs, and the test of a measurement |
| `recognition` | galleries, probes and recognisers: Fisherfaces, and how often one names the right person |
| `descriptors` | the recogniser of dlib: faces found, their landmarks, and descriptors |
| `networks` | a small network that an attacker trains |
| `text` | a program that reads letters |
| `guesses` | how often a picture tells the content of a unit from that of another |
| `survey` | all of it on a folder of pictures, for the command `dipp risk` |
"""
