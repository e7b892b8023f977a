"""Risk: what programs recognise, read and guess in released pictures, beside what the certificate allows.

Nothing here is a promise. A program that fails shows only that this program fails; the bounds hold for all programs.
Everything is measured on pictures whose people and texts are known, so use public pictures.

| module | what it is |
|---|---|
| `bounds` | what a certificate allows an attacker to recognise or guess, with proofs, and the test of a measurement |
| `recognition` | galleries, probes and recognisers: Fisherfaces, and how often a recogniser names the right person |
| `descriptors` | the recogniser of dlib: detected faces, their landmarks, and descriptors |
| `networks` | a small network that an attacker trains |
| `text` | a program that reads letters |
| `guesses` | how often a released picture tells the content of one unit from that of another |
| `survey` | all measurements on a folder of pictures, for the command `dipp risk` |
"""
