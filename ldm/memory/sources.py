"""Memories wherever they are: in a directory, on a server, or in a pack."""

from __future__ import annotations

from pathlib import Path

from ldm.errors import MemoryStoreError
from ldm.memory.addresses import is_server
from ldm.memory.contents import Contents, Whole
from ldm.memory.directory import chosen_of
from ldm.memory.index import Generation
from ldm.memory.opening import known_generations, load
from ldm.memory.packs import SUFFIX, is_pack, read_pack


class Source:
    """A place that memories are read from."""

    def __init__(self, place: str) -> None:
        """Look into a directory, a server's address or a pack, which is read.

        Raises MemoryStoreError where there is no memory.
        """
        self.place = place
        self._pack: Whole | None = None
        path = Path(place)
        if not is_server(place) and not path.is_dir() and (path.suffix == SUFFIX or is_pack(path)):
            self._pack = Whole(*read_pack(path))

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments that have a memory here, sorted."""
        if self._pack is not None:
            return (self._pack.contents.generation.env,)
        return tuple(sorted(known_generations(self.place)))

    def read(self, env: str, generation: int | None = None) -> Whole:
        """Return the memory of `env` up to `generation` (None: the newest).

        Raises MemoryStoreError where there is no such memory or generation.
        """
        present = self._generations(env)
        chosen = chosen_of(present, self.place, env, generation)
        earlier = tuple(one for one in present if one.number <= chosen.number)
        return Whole(self._contents(chosen), earlier)

    def _generations(self, env: str) -> tuple[Generation, ...]:
        if self._pack is None:
            return known_generations(self.place).get(env, ())
        return self._pack.generations if env in self.environments else ()

    def _contents(self, chosen: Generation) -> Contents:
        if self._pack is None:
            return load(self.place, chosen.env, chosen.number, exact=True)
        newest = self._pack.contents
        return newest if chosen == newest.generation else newest.at(chosen)


def common_environment(sources: list[Source], env: str = "") -> str:
    """Return the environment whose memory is meant: `env`, or the only one of all sources.

    Raises MemoryStoreError where there are several, or none.
    """
    if env:
        return env
    names = sorted({name for source in sources for name in source.environments})
    if len(names) != 1:
        places = " and ".join(source.place for source in sources)
        raise MemoryStoreError(
            f"{places} hold {len(names)} environments: {', '.join(names) or 'none'}.",
            "Name one with --env." if names else "Make a memory with `ldm build-memory`.",
        )
    return names[0]
