"""Tabletop: an expert that plays each kind of task by an exact plan."""
