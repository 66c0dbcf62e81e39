"""`ldm memory fold`: make a generation of what an agent added one by one."""

from __future__ import annotations

from ldm.cli import output
from ldm.cli.options import AsJson, EmbedderName, MemoryAt
from ldm.config import DEFAULT_MEMORY
from ldm.errors import LdmError
from ldm.text import counted


def fold(
    memory: MemoryAt = DEFAULT_MEMORY, embedder: EmbedderName = None, as_json: AsJson = False
) -> None:
    """Form what was added one by one (in Python: `add`, `record`) into the next generation.

    Commands see generations only. A full batch becomes one by itself; the rest waits for more
    additions, or for this command.

    \b
    Examples:
      ldm memory fold --memory support-memory
    """
    from ldm.embed import load_embedder
    from ldm.memory import additions
    from ldm.memory.addresses import is_server
    from ldm.memory.directory import check_directory
    from ldm.memory.growing import GrowingMemory

    if is_server(memory):
        raise LdmError(
            f"{memory} is a server, to which nothing is added one by one.",
            "Name a directory with --memory.",
        )
    names = additions.environments(memory)
    if not names:
        check_directory(memory)
    folded = {}
    for env in names:
        loaded = load_embedder(embedder) if embedder else None
        growing = GrowingMemory.open(memory, env, embedder=loaded)
        count, made = growing.pending, growing.fold()
        folded[env] = {"trajectories": count, "generation": made.number if made else None}
    if as_json:
        output.print_json(folded)
        return
    for env, one in folded.items():
        output.say(
            f"{env}: {counted(one['trajectories'] or 0, 'trajectory')} → generation "
            f"{one['generation']}.",
            error=False,
        )
    if not folded:
        output.say(f"Everything in {memory} is in a generation already.", error=False)
