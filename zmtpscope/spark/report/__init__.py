"""A report on captures: the answers of `zmtpscope.spark.analytics` as tables, and as a page that needs no network."""
