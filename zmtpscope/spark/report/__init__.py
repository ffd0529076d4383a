"""A report on captures: the answers of `zmtpscope.spark.analytics` as tables, and as a page that needs no network.

`answers.py` runs the analytics, `writing.py` writes tables and page to a directory, and `page.py` builds the page from
`sections.py`, `plots.py` and `page.html`.
"""
