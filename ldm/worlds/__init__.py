"""Worlds that ship as plug-ins: the core does not know them (architecture.md#layers)."""
