"""`make fuzz`: captures and peers are changed in every way that networks, capture tools and attackers have, and what
must always hold is checked of each. docs/fuzzing.md says what, and how to look at what was found.

`wire` reads and writes captures as packets and TCP segments, `talks` are the captures to begin with, `changes` what is
done to them, `cases` puts these together; `checks` says what must hold; `campaign` runs all of it.
"""
