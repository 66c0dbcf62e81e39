"""The environments that ship, a folder each: the core knows none (architecture.md#layers)."""
