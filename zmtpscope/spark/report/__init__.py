"""A report of captures: what `zmtpscope.spark.analytics` answers, as tables and as a page that opens without a network.

`answers.py` asks, `writing.py` puts the tables and the page into a directory, `page.py` makes the page of
`sections.py`, `plots.py` and `page.html`.
"""
