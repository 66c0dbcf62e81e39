"""`ldm memory show | search | rollback | export | import`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ldm import records
from ldm.cli import output
from ldm.cli.environment import EMBEDDINGS, cache_folder, runtime
from ldm.cli.options import AsJson, EmbedderName, MemoryAt, Yes, confirm, listed_ids, listed_names
from ldm.config import DEFAULT_MEMORY, Refine, Section
from ldm.embed import chosen_embedder
from ldm.embed.caching import remove as remove_vectors
from ldm.errors import LdmError
from ldm.memory import Memory, changes, chroma, environments, generations, inspect, packs, record
from ldm.memory.filters import Filter
from ldm.memory.growing import GrowingMemory
from ldm.memory.index import Generation
from ldm.memory.lessons import Contents, rules_of
from ldm.memory.places import refuse_server
from ldm.memory.rows import Rows, outcome_counts, type_sizes
from ldm.memory.verifying import verify as problems_of
from ldm.reason.relevance import Relevance
from ldm.reason.rules import SUPPORT, Rules
from ldm.records import is_stream, plain
from ldm.run.builders import environment_card, only_environment
from ldm.run.refine import Worth, worth_of
from ldm.text import counted
from ldm.types import StateActionTuple, Trajectory

memory_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Inspect, search, change, export and import a memory.",
)

Env = Annotated[str, typer.Option(help="The environment; the memory's only one if omitted.")]
Number = Annotated[int | None, typer.Option(help="Memory generation; default: the newest.")]


def chosen(memory: str, env: str) -> str:
    """Return the named environment, or the memory's only one if `env` is empty."""
    if not env:
        return only_environment(memory)
    if ":" in env:
        env = environment_card(Section(env)).name
    if env not in environments(memory):
        raise record.missing(memory, env)
    return env


@memory_app.command("show")
def show(
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Annotated[str, typer.Option(help="Only this environment, with its types.")] = "",
    generation: Number = None,
    as_json: AsJson = False,
) -> None:
    """List the environments and generations of a memory; with --env also the types.

    Goals are those that a refinement explored; added is the change in recalled tuples. Outcomes
    are shown if any trajectory scored less than full. With --env, the goal types of each batch (at
    --generation) follow, each with a typical goal, its observation types and numbers of tuples.

    It also shows how often the steps of episodes left out of learning are decided right, by kind.

    \b
    Examples:
      ldm memory show
      ldm memory show --env alfworld --generation 0
      ldm memory show --memory http://localhost:8000 --json
    """
    name = chosen(memory, env) if env or generation is not None else ""
    listed = []
    for one in [name] if name else environments(memory):
        rows_of = inspect(memory, one).rows
        listed += [(g, outcome_counts(rows_of, g.number)) for g in generations(memory, one)]
    if not listed and (names := _recorded(memory)):
        inspect(memory, names[0])  # raises the error that fits
    contents = inspect(memory, name, generation) if name else None
    types = _types(contents) if contents else []
    learnt = contents.learnt() if contents else None
    if as_json:
        data: dict[str, Any] = {
            "memory": memory,
            "generations": [{**plain(g), "outcomes": earned} for g, earned in listed],
        }
        if learnt:
            data["types"] = types
            for one in ("left_out", "unlisted"):
                data[one] = plain(getattr(learnt, one))
                del data[one]["curve"]  # of which `parts` are the summary
        output.print_json(data)
        return
    _print_generations(memory, listed)
    if name:
        table = []
        for row in types:
            table.append((row["batch"], row["goal_type"], row["typical_goal"], "", row["tuples"]))
            table += [("", "", "", *below) for below in row["observation_types"].items()]
        columns = ("batch", "goal type", "typical goal", "observation type", "tuples")
        output.print_table(f"Types of {name}", columns, table)
    if contents and learnt and learnt.left_out.kinds:
        pairs = contents.rows.pairs("kind", "trajectory_id")
        _print_left_out(name, learnt, Counter(kind for kind, _ in pairs))


def _print_left_out(env: str, learnt: Relevance, episodes: Mapping[str, int]) -> None:
    """Print how often left-out steps were decided right, and where more episodes would help."""
    left_out, unlisted = learnt.left_out, f"{learnt.unlisted.right:.1%}"
    kinds = sorted(left_out.kinds, key=lambda one: one[2])
    table = [
        (kind or "(none)", episodes[kind], steps, f"{right:.1%}") for kind, steps, right in kinds
    ]
    output.print_table(f"Left-out steps of {env}", ("kind", "episodes", "steps", "right"), table)
    worst = f" More of {kinds[0][0]!r} would help most." if len(kinds) > 1 else ""
    output.show(
        f"{left_out.right:.1%} of the steps of episodes left out are decided right, {unlisted} if"
        f" no possible actions are listed; the confidence is wrong by {left_out.error:.1%} on"
        f" average.{worst}"
    )


def _print_generations(memory: str, listed: list[tuple[Generation, dict[str, int]]]) -> None:
    """Print the table of generations, each with its numbers of outcomes."""
    columns = ["environment", "generation", "origin", "goals", "added", "tuples", "embedder"]
    rows, before = [], dict[str, int]()
    for g, _ in listed:
        goals = len(g.tasks) if g.origin == "refined" else None
        added = f"{g.recallable - before.get(g.env, 0):+}"
        rows.append([g.env, g.number, g.origin, goals, added, g.recallable, g.embedder])
        before[g.env] = g.recallable
    if any(set(earned) - {"full", "unknown"} for _, earned in listed):
        columns.append("outcomes")
        for row, (_, earned) in zip(rows, listed, strict=True):
            row.append(", ".join(f"{count} {name}" for name, count in earned.items()))
    output.print_table(f"Memory at {memory}", columns, rows)
    output.say_all(f"{g.env} {g.number}: {_settings(g)}" for g, _ in listed)


def _types(contents: Contents) -> list[dict[str, Any]]:
    """Return the goal types of every batch, with a typical goal and the observation types."""
    return [
        {
            "batch": batch.id,
            "goal_type": goal_type,
            "typical_goal": typical,
            "tuples": size,
            "observation_types": below,
        }
        for batch in contents.batches
        for goal_type, typical, size, below in type_sizes(batch, contents.rows)
    ]


@memory_app.command("rules")
def rules(
    kind: Annotated[str | None, typer.Option(help="Only of this task kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of rules.")] = 30,
    split: Annotated[
        str, typer.Option(help="Also try rules on tasks of this training split.")
    ] = "",
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    as_json: AsJson = False,
) -> None:
    """Say in words what a memory teaches: which facts call for which action.

    Each rule has how often it held, of the steps of its condition in episodes that worked, and how
    often in episodes that it was not learnt from. Pending episodes of an agent's own memory count.
    With --split, tasks are played to their end both ways where a rule holds: as it says, and with
    the likeliest other action. The last columns are mean scores, steps saved, and in how many
    states.

    \b
    Examples:
      ldm memory rules
      ldm memory rules --split train
      ldm memory rules --kind heat --limit 10
      ldm memory rules --memory support-memory --json
    """
    if growing := _growing(memory, env):
        with GrowingMemory.open(memory, growing) as opened:
            name, learnt = growing, opened.rules(kind)
    else:
        name = chosen(memory, env)
        learnt = rules_of(inspect(memory, name).recallable.tuples).of_kind(kind)
    known = {one.kind for one in learnt.habits}
    if kind is not None and not known:
        raise LdmError(
            f"The memory of {name} has no tasks of kind {kind!r}.", "See `ldm memory show`."
        )
    tried: list[Worth] = []
    if split and learnt.reader:
        spec = Refine(env=env, split=split, memory=memory)
        tried = worth_of(learnt.rules[:limit], learnt.reader, spec, runtime())
    if as_json:
        data = {"memory": memory, "env": name, **plain(replace(learnt, reader=None))}
        del data["reader"]
        output.print_json(data | ({"tried": plain(tried)} if split else {}))
        return
    if learnt.rules:
        _print_rules(name, learnt, limit, tried)
    else:
        output.show(
            f"No rule of {name} holds in episodes that it was not learnt from. One takes"
            f" {SUPPORT} that show it, and more to test it: record more."
        )
    output.say_all(f"No single answer: {one}" for one in learnt.contradictions)


def _print_rules(name: str, learnt: Rules, limit: int, tried: Sequence[Worth]) -> None:
    """Print the first rules, with what they are worth if they were tried."""
    rows: list[tuple[Any, ...]] = [
        (", ".join(x.facts), x.action, x.right, x.of, f"{x.held} of {x.tested}")
        for x in learnt.rules[:limit]
    ]
    columns: tuple[str, ...] = ("when", "do", "held", "of", "where not learnt from")
    if tried:
        columns = *columns, "obeyed", "broken", "steps saved", "states"
        worth = [(f"{x.obeyed:.2f}", f"{x.broken:.2f}", x.saved, x.states) for x in tried]
        rows = [(*row, *more) for row, more in zip(rows, worth, strict=True)]
    count = len(learnt.rules)
    title = f"Rules of {name}: they explain {learnt.explained:.0%} of the steps that worked"
    output.print_table(title, columns, rows)
    output.say_all(learnt.lines()[count:])
    if count > limit:
        output.show(f"{count - limit} more: --limit {count}.")


@memory_app.command("rollback")
def rollback(
    generation: Annotated[int, typer.Argument(metavar="G", help="The generation to go back to.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    yes: Yes = False,
) -> None:
    """Go back to an earlier generation; later ones disappear.

    Going back to a later one undoes this, until another command writes to the memory.

    \b
    Examples:
      ldm memory rollback 0
      ldm memory rollback 1 --yes
    """
    name = chosen(memory, env)
    newest = generations(memory, name)[-1]
    if generation < newest.number:
        tuples = counted(newest.recallable, "tuple")
        confirm(f"Go back from generation {newest.number} ({tuples}) of {name}?", yes=yes)
    changes.rollback(memory, name, generation)
    if generation == newest.number:
        line = f"Generation {generation} of {name} is already the newest."
    elif generation > newest.number:
        line = f"{name} is at generation {generation} again."
    else:
        undo = f"`ldm memory rollback {newest.number}`, before you write to it"
        line = f"{name} is back at generation {generation}. Undo it with {undo}."
    output.show(line)


@memory_app.command("search")
def search(
    goal: Annotated[str, typer.Argument(help="The goal.")],
    observation: Annotated[str, typer.Argument(help="The current observation.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    k: Annotated[int, typer.Option(min=1, help="Number of tuples.")] = 5,
    generation: Number = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Show the tuples that a goal and an observation recall, the most similar first.

    Within: types (the same goal and observation types as yours) or, if these hold fewer than --k,
    goal type (any observation type) or batch (any type). Agents search the narrowest first.

    Outcome: the score of the trajectory, its gain over the memory alone (refinement), and the
    number of steps that hindsight saved.

    \b
    Examples:
      ldm memory search --env alfworld "put a hot egg in the fridge" "You see a egg 2."
      ldm memory search "heat an egg" "You see nothing." --k 10 --json
    """
    name = chosen(memory, env)
    opened = Memory.open(memory, name, embedder=embedder, generation=generation)
    recalls = sorted(opened.retrieve(goal, observation, k), key=lambda recall: -recall.similarity)
    kind = opened.kind_of(goal)
    if as_json:
        entries = [plain(recall) for recall in recalls]
        output.print_json({"memory": memory, "kind": kind, "recalls": entries})
        return
    columns = ["similarity", "within", "batch", "goal type", "goal", "observation", "action"]
    rows = []
    for recall in recalls:
        one, where = recall.tuple, (recall.fallback or "types", recall.batch, recall.goal_type)
        rows.append([f"{recall.similarity:.3f}", *where, one.goal, one.observation, one.action])
    if any(recall.tuple.outcome is not None for recall in recalls):
        columns.append("outcome")
        for row, recall in zip(rows, recalls, strict=True):
            row.append(_outcome(recall.tuple))
    output.print_table(f"Kind: {kind}", columns, rows)
    if any(recall.fallback for recall in recalls):
        output.show(
            "Within: types, the same goal and observation types as yours; the goal type or batch "
            f"if these hold fewer than {k} tuples."
        )


@memory_app.command("export")
def export(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="FILE.ldmpack, or JSONL (.gz compresses it)."),
    ] = None,
    skills: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write skills to a folder.")
    ] = None,
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    generation: Number = None,
    yes: Yes = False,
) -> None:
    """Write a memory to one file; equal memories give equal bytes.

    A pack (.ldmpack) includes the vectors and can be imported. JSONL is for reading. --skills
    writes a SKILL.md for each kind of task instead: its usual steps, what calls for which action,
    and what failed. Files there that it did not write are replaced with --yes alone.

    \b
    Examples:
      ldm memory export alfworld.jsonl.gz
      ldm memory export alfworld.ldmpack
      ldm memory export before.jsonl --generation 0
      ldm memory export --skills .claude/skills
    """
    if skills is not None:
        contents = inspect(memory, chosen(memory, env), generation)
        written = packs.export_skills(
            contents.recallable.tuples, contents.generation.env, skills, replace=yes
        )
        output.say_all(map(str, written))
    if file is None and skills is None:
        raise LdmError("Nothing is named to write to.", "Give FILE or --skills DIR.")
    if file is None:
        return
    write_to = packs.export_pack if file.suffix == packs.SUFFIX else packs.export
    count = write_to(memory, chosen(memory, env), file, generation)
    output.say(f"{count} tuples → {file}", error=is_stream(file))


@memory_app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Pack written by `ldm memory export`.")
    ],
    memory: MemoryAt = DEFAULT_MEMORY,
) -> None:
    """Import a pack into a location without a memory of that environment.

    \b
    Examples:
      ldm memory import alfworld.ldmpack --memory /tmp/memory
    """
    env, tuples = packs.import_pack(memory, file)
    output.show(f"{tuples} tuples of {env} → {memory}")


def _outcome(source: StateActionTuple) -> str:
    outcome = source.outcome
    if outcome is None:
        return "unknown"
    gained = f", {outcome.advantage:+.2g}" if outcome.advantage else ""
    saved = f", saves {outcome.saved} steps" if outcome.saved else ""
    return f"{outcome.score:.2g}{gained}{saved}" + " (a warning)" * source.is_warning


def _settings(generation: Any) -> str:
    """Return the settings of a generation in words, without lists of goals."""
    settings = {k: v for k, v in generation.settings.items() if not k.endswith("_goals")}
    return ", ".join(f"{name} {value}" for name, value in settings.items())


@memory_app.command("verify")
def verify(
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Check a memory: checksums, hashes, cells, vectors, logs, and Chroma against the files.

    It re-embeds 200 texts. The exit status is 1 if anything is wrong.

    \b
    Examples:
      ldm memory verify
      ldm memory verify --env alfworld --json
    """
    problems = {}
    for name in [env] if env else environments(memory):
        model = chosen_embedder(embedder, inspect(memory, name).generation.embedder)
        problems[name] = problems_of(memory, name, model)
    failed = any(problems.values())
    lines = (f"{name}: {one}" for name, listed in problems.items() for one in listed or ["sound"])
    output.print_result({"ok": not failed, "problems": problems}, lines, as_json=as_json)
    if failed:
        output.say(
            "`ldm memory publish` makes Chroma's tuples again. To repair anything else, take a "
            "copy or a pack, or build the memory again with `ldm build-memory DATA --rebuild`."
        )
        raise typer.Exit(1)


@memory_app.command("publish")
def publish(
    to: Annotated[
        str, typer.Option("--chroma", metavar="DIR|URL", help="Default: within the memory.")
    ] = "",
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    as_json: AsJson = False,
) -> None:
    """Publish a memory's tuples to Chroma, a directory or a server, where any client finds them.

    Every change of a memory does this for the Chroma directory within it. Only what differs is
    written.

    \b
    Examples:
      ldm memory publish
      ldm memory publish --chroma http://localhost:8000
    """
    published, place = {}, to or chroma.beside(memory)
    for name in [chosen(memory, env)] if env else environments(memory):
        contents = inspect(memory, name)
        with output.stages(quiet=as_json) as on_progress:
            put = partial(chroma.publish_beside, memory, contents, on_progress)
            if to:
                put = partial(chroma.publish, contents, to, on_progress)
            put()
            if chroma.differences(contents, place):
                put(anew=True)  # somebody changed what was published
        published[name] = contents.generation.recallable
    lines = (f"{name}: {counted(count, 'tuple')} → {place}" for name, count in published.items())
    output.print_result(published, lines, as_json=as_json)


Trajectories = Annotated[
    str,
    typer.Option(
        "--trajectories", "--trajectory", metavar="A,B", help="Ids of trajectories or episodes."
    ),
]
Tasks = Annotated[str, typer.Option("--tasks", "--task", metavar="A,B", help="Ids of tasks.")]
Sources = Annotated[
    str,
    typer.Option(
        *("--sources", "--source"),
        metavar="A,B",
        help="Files of trajectories, or sources (games, products).",
    ),
]


@memory_app.command("forget")
def forget(
    trajectories: Trajectories = "",
    tasks: Tasks = "",
    sources: Sources = "",
    origin: Annotated[str, typer.Option(help="Origin: human, expert, agent or explored.")] = "",
    purge: Annotated[
        bool, typer.Option("--purge", help="Erase them from the disk and all generations.")
    ] = False,
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    as_json: AsJson = False,
) -> None:
    """Forget the tuples that match all given options: they are not recalled.

    This adds a generation without them, and `ldm memory rollback` brings them back. --purge erases
    them from all generations and from the disk, together with the cache of vectors. It needs as
    much disk space again, and an interruption changes nothing. Runs and exported files stay.

    \b
    Examples:
      ldm memory forget --trajectories 0f3a9c5e77d1b204
      ldm memory forget --sources sessions.jsonl --purge
      ldm memory forget --origin agent --env alfworld
    """
    if not (trajectories or tasks or sources or origin):
        raise LdmError(
            "No tuples are selected to be forgotten.",
            "Give --trajectories, --tasks, --sources or --origin.",
        )
    name = _folded(memory, env)
    contents = inspect(memory, name)
    recalled = contents.recallable.ids
    given, ids = _selected(contents.rows, trajectories, tasks, sources, origin)
    newest, change, undo = contents.generation, "", ""
    if purge:
        _erase(memory, name, ids, quiet=as_json)
        newest, change = generations(memory, name)[-1], "erased"
    elif ids := [one for one in ids if one in recalled]:
        settings = {field: " ".join(values) for field, values in given.items()}
        newest = changes.hide(memory, newest, ids, settings=settings, origin="forgotten")
        change = "forgotten"
        if not record.is_server(memory):
            undo = f" Go back with `ldm memory rollback {newest.number - 1}`."
    done = "No recallable tuple matches; nothing was changed."
    if change:
        number = counted(len(ids), "tuple")
        done = f"{number} {change}: generation {newest.number} recalls {newest.recallable}.{undo}"
    output.print_result({"generation": newest.number, "forgotten": ids}, [done], as_json=as_json)


def _selected(
    rows: Rows, trajectories: str, tasks: str, sources: str, origin: str
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the conditions that are given, and the ids of the tuples that meet them.

    Raises MemoryStoreError for a value that no tuple has.
    """
    known = rows.distinct("trajectory_id").values()
    from_files, named = _sources(listed_names(sources), known)
    where = {
        "episode": (*listed_names(trajectories), *from_files),
        "task": tuple(listed_ids(tasks)),
        "source": named,
        "origin": tuple(listed_names(origin)),
    }
    given = {field: values for field, values in where.items() if values}
    if not given:
        return given, []
    accepted = Filter.of(given)
    accepted.check(rows)
    return given, sorted(rows.take(accepted.mask(rows)).ids)


def _recorded(memory: str) -> tuple[str, ...]:
    """Return the environments that a directory has a folder of, with or without a generation."""
    return () if record.is_server(memory) else record.environments(memory)


def _growing(memory: str, env: str) -> str:
    """Return the chosen environment if agents record episodes of it, else ""."""
    known = _recorded(memory)
    names = (env,) if env and known else known
    if len(names) != 1 or not (record.folder_of(memory, names[0]) / "episodes.log").exists():
        return ""
    return names[0]


def _folded(memory: str, env: str) -> str:
    """Return the chosen environment after its pending additions are formed."""
    if not (name := _growing(memory, env)):
        return chosen(memory, env)
    with GrowingMemory.open(memory, name) as growing:
        growing.fold()
    return name


def _erase(memory: str, env: str, ids: Sequence[str], *, quiet: bool) -> None:
    """Erase tuples from all generations, and the cache of vectors."""
    refuse_server(memory, "may keep what is removed in its files")
    # The cache first: an interrupted command can be repeated as long as the tuples exist.
    if remove_vectors(cache_folder() / EMBEDDINGS) and not quiet:
        output.say("The cache of vectors was removed; vectors are recomputed when needed.")
    with output.stages(quiet=quiet) as on_progress:
        changes.purge(memory, env, ids, on_progress)


def _sources(
    names: Sequence[str], known: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the `known` trajectories in files, and the names that are not files."""
    files = [name for name in names if Path(name).is_file()]
    ids = [one.id for name in files for one in records.read(Path(name), Trajectory)]
    held = tuple(name for name in ids if name in known)
    if files and not held:
        raise LdmError(
            f"The memory holds none of the {len(ids)} trajectories in {', '.join(files)}.",
            "Name the files that it was built from.",
        )
    return held, tuple(name for name in names if name not in files)


@memory_app.command("fold")
def fold(
    memory: MemoryAt = DEFAULT_MEMORY, embedder: EmbedderName = None, as_json: AsJson = False
) -> None:
    """Form pending additions (in Python: `add`, `record`) into the next generation.

    Commands see generations only. A full batch becomes one by itself; the rest waits for more
    additions or for this command.

    \b
    Examples:
      ldm memory fold --memory support-memory
    """
    refuse_server(memory, "has no pending additions")
    folded, lines = dict[str, dict[str, int | None]](), list[str]()
    for env in record.environments(memory):
        with GrowingMemory.open(memory, env, embedder=embedder) as growing:
            if count := growing.pending:
                made = growing.fold()
                at = made.number if made else None
                folded[env] = {"trajectories": count, "generation": at}
                lines.append(f"{env}: {counted(count, 'trajectory')} → generation {at}.")
    lines = lines or [f"{memory} has no pending additions."]
    output.print_result(folded, lines, as_json=as_json)
