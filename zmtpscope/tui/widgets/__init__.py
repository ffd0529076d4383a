"""Widgets: lists, trees, octets and the filter bar, drawn line by line."""
