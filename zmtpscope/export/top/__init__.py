"""What `zmtpscope top` counts and shows: topics, connections and peers, by interval and in all."""
