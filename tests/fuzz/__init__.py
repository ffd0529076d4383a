"""`make fuzz`: change captures and peers in every way that networks, capture tools and attackers do, and check
properties that must always hold. docs/fuzzing.md describes the properties, and how to examine faults.

`wire` reads and writes captures as packets and TCP segments, `talks` are the captures to start with, `changes` are the
changes, and `cases` combines these; `checks` contains the properties; `campaign` runs all of it.
"""
