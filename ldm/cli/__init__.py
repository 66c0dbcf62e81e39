"""The command line: parse, wire, print. No logic."""
