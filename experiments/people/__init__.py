"""The experiment on people: who is recognised, what is read, and what an ordinary reader guesses.

| module | what it is |
|---|---|
| `faces` | the pictures of people |
| `methods` | ways to protect pictures: dipp by several units, redaction, blur, pixelation, noise |
| `likelihood`, `restoring` | the best attacker on questions; an attacker that restores pictures |
| `recognising` | stage `faces`: recognisers against every method, and what remains of the pictures |
| `claims` | stage `claims`: attackers against the bound of whole pictures |
| `glasses` | who wears glasses, and whether that can be told |
| `lines` | lines of known letters, and a reader who knows their typeface |
| `reading` | stage `text`: characters read, by height of the letters |
| `guessing` | stage `guesses`: ordinary guesses about pixels, cells and pictures |
| `figures` | stage `report`: the plot and the tables of the documents |
| `store` | the folder of a run |
"""
