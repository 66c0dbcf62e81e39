"""TextCraft's card and metadata, as environment.toml declares them."""

from ldm.envs.metadata import declared

CARD, METADATA = declared(__file__)
