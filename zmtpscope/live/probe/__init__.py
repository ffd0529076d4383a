"""Who is at an endpoint, found out without harm to it."""
