"""`ldm build-memory` and `ldm import`: trajectory files in, a memory or our own files out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.models import (
    CacheAt,
    Concurrency,
    LlmName,
    MaxCalls,
    MaxTokens,
    MaxUsd,
    ModelOptions,
    PricesAt,
    ReasonerName,
    ReplayOf,
    Timeout,
    connection,
    serving,
)
from ldm.cli.wiring import DEFAULT_MEMORY, card_of
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.embed import Embedder
    from ldm.memory import BuildResult
    from ldm.reasoner import Reasoner
    from ldm.reasoner.prompted import Formation
    from ldm.records import Problem
    from ldm.types import Trajectory

#: Problems printed before the rest is only counted.
SHOWN = 20

Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad record.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FormatName = Annotated[
    str, typer.Option("--format", help="The files' format; told by their lines if left out.")
]
MemoryAt = Annotated[
    str, typer.Option("--memory", help="A directory, or http://host:port of a Chroma server.")
]
EmbedderName = Annotated[
    str | None, typer.Option("--embedder", help="A sentence-transformers model.")
]


class Batching(StrEnum):
    """How trajectories are cut into batches (FormationOptions.batching)."""

    kind = "kind"
    mixed = "mixed"


def build_memory(  # noqa: PLR0913, PLR0917 - one parameter an option
    paths: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Folders or files.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Annotated[str, typer.Option(help="Only trajectories of this environment.")] = "",
    batch_size: Annotated[
        int, typer.Option(min=0, help="Trajectories a batch; 0: the paper's 50, WebShop 100.")
    ] = 0,
    batching: Annotated[Batching, typer.Option(help="Within each kind, or over all.")] = (
        Batching.kind
    ),
    seed: Annotated[int, typer.Option(help="Of the shuffle before cutting.")] = 0,
    embedder: EmbedderName = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Drop the memory first.")] = False,
    formation: Annotated[
        Literal["trajectory", "paper"],
        typer.Option(help="Model calls for histories: one every 8 steps, or two a step (paper)."),
    ] = "trajectory",
    llm: LlmName = None,
    reasoner_llm: ReasonerName = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Folder to record model calls in; default: calls in the memory's."),
    ] = None,
    cache: CacheAt = None,
    replay: ReplayOf = None,
    concurrency: Concurrency = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_calls: MaxCalls = None,
    prices: PricesAt = None,
    timeout: Timeout = None,
    format_name: FormatName = "",
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Form a memory from every trajectory file below DATA, each environment by itself.

    What the memory holds already is left out; with nothing new nothing happens. More trajectories
    become further batches, in a new generation. An interrupted build goes on where it was.

    With a model, it writes the histories and makes the types; its calls are recorded beside the
    memory, and none is paid twice. Without one the offline reasoner does.

    \b
    Examples:
      ldm build-memory data/
      ldm build-memory data/ --llm gpt-4o-mini --max-usd 5 --rebuild
      ldm build-memory data/ --rebuild --replay .ldm/memory/calls
      ldm build-memory expert.jsonl --memory /tmp/memory --batch-size 100
      ldm build-memory data/ --rebuild --seed 1
    """
    trajectories = _trajectories(paths, format_name, strict)
    chosen = [t for t in trajectories if not env or t.task.env == env]
    if not chosen:
        where = ", ".join(map(str, paths))
        raise LdmError(
            f"There is no trajectory{f' of {env}' if env else ''} in {where}.",
            "`ldm import` turns other formats into ours; `ldm schema trajectory` shows it.",
        )
    from ldm.embed import load_embedder
    from ldm.memory import FormationOptions, build

    asked = ModelOptions.given(
        llm=llm,
        reasoner_llm=reasoner_llm,
        cache=cache,
        replay=replay,
        concurrency=concurrency,
        max_usd=max_usd,
        max_tokens=max_tokens,
        max_calls=max_calls,
        prices=prices,
        timeout=timeout,
    )
    options = FormationOptions(batch_size, batching.value, seed)
    model = load_embedder(embedder)
    reports = []
    calls = (record or _calls(memory)) if asked.configured else None
    with _reasoning(asked, calls, formation) as reasoner_of:
        for name in sorted({t.task.env for t in chosen}):
            with output.stages() as on_progress:
                built = build(
                    memory,
                    [t for t in chosen if t.task.env == name],
                    model,
                    reasoner_of(name),
                    options=options,
                    rebuild=rebuild,
                    on_progress=on_progress,
                )
            reports.append(_report(built, memory))
            if not as_json:
                _show(built, memory)
    if as_json:
        output.print_json({"memory": memory, "environments": reports})


@contextmanager
def _reasoning(
    asked: ModelOptions, record: Path | None, formation: Formation
) -> Iterator[Callable[[str], Callable[[Embedder], Reasoner]]]:
    """Environment → what makes the reasoner that forms its memory: a model's, or the offline one.

    What a model costs is said in the end, and what became of its replies. record: where its calls
    go, None for nowhere.
    """
    from ldm.reasoner.offline import OfflineReasoner

    if not asked.configured:
        output.say("No language model is used: the offline reasoner forms the memory.")
        yield lambda _: OfflineReasoner
        return
    from ldm.eval.report import told_replies
    from ldm.reasoner.prompted import PromptedOptions, PromptedReasoner

    if not asked.replay:
        output.say(f"{asked.roles()['reasoner']} at {connection().shown} forms the memory.")
    made: list[PromptedReasoner] = []
    options = PromptedOptions(formation, concurrency=asked.at_once)
    with serving(asked, record) as models:

        def reasoner_of(env: str) -> Callable[[Embedder], Reasoner]:
            def make(embedder: Embedder) -> Reasoner:
                fallback, llm = OfflineReasoner(embedder), models.get("reasoner")
                made.append(PromptedReasoner(llm, card_of(env), fallback, embedder, options))
                return made[-1]

            return make

        try:
            yield reasoner_of
        finally:
            for reasoner in made:
                if replies := told_replies(reasoner.counts()):
                    output.say(replies)


def _calls(memory: str) -> Path | None:
    """Where the calls of a memory are recorded unless it is said; nowhere for a server's."""
    from ldm.memory.store import CALLS, is_server

    if is_server(memory):
        output.say("The calls of a memory on a server are recorded with --record FOLDER only.")
        return None
    return Path(memory) / CALLS


def import_files(  # noqa: PLR0913, PLR0917 - one parameter an option
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files or folders.")],
    out: Annotated[Path, typer.Option("--out", help="The JSONL file to write (.gz packs it).")],
    format_name: FormatName = "",
    min_reward: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out trajectories that scored less.")
    ] = 0.0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, kinds evenly.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="WebShop's product files, to rebuild pages; default: $WEBSHOP_DATA."),
    ] = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Turn trajectories of other formats into our own JSONL.

    A bad record is reported as file:line:field and does not lose the others. Logs of people in
    WebShop say which pages they opened: what stood on them is rebuilt where the products are known.

    \b
    Examples:
      ldm import conversations.jsonl --out data/trajectories/alfworld/expert.jsonl
      ldm import logs/ --out all.jsonl.gz --format alfworld-conversations --strict
      ldm import human_sessions/ --data webshop/ --out human.jsonl
      ldm import react_episodes.jsonl --min-reward 1 --limit 20 --out agent.jsonl
    """
    from ldm import records
    from ldm.eval.plan import even

    named = os.environ.get("WEBSHOP_DATA")
    found = _trajectories(files, format_name, strict, data or (Path(named) if named else None))
    worth = [t for t in found if t.score >= min_reward]
    kept = even([(t.id, f"{t.task.env} {t.task.kind}") for t in worth], limit or len(worth))
    trajectories = [worth[i] for i in kept]
    if not trajectories:
        raise LdmError(
            f"There is no trajectory in these files{_worth(min_reward)}.", f"{out} was not written."
        )
    count = records.write(out, trajectories)
    kinds = Counter(f"{t.task.env} {t.task.kind}".strip() for t in trajectories)
    blind = sum(_blind(t) for t in trajectories)
    if as_json:
        report = {
            "out": str(out),
            "trajectories": count,
            "left_out": len(found) - count,
            "without_observations": blind,
            "kinds": dict(sorted(kinds.items())),
        }
        output.print_json(report)
        return
    rows = [(kind, str(number)) for kind, number in sorted(kinds.items())]
    output.print_table("", ("kind", "trajectories"), rows)
    output.say(f"{count} trajectories → {out}", error=False)
    if len(found) > len(worth):
        output.say(f"{len(found) - len(worth)} left out: reward below {min_reward:g}.", error=False)
    if len(worth) > count:
        output.say(f"{len(worth) - count} left out: --limit {limit}.", error=False)
    if blind:
        output.say(
            f"{blind} hold actions only: what was seen is not recorded, and the products are not in"
            " the data that --data names.",
            error=False,
        )


def _worth(min_reward: float) -> str:
    return f" with a reward of {min_reward:g} or more" if min_reward else ""


def _blind(trajectory: Trajectory) -> bool:
    """Whether nothing that followed an action is recorded."""
    return not any(step.observation for step in trajectory.steps)


def _trajectories(
    paths: Iterable[Path], format_name: str, strict: bool, data: Path | None = None
) -> list[Trajectory]:
    """What the files hold; bad records are printed, or raised where `strict`."""
    from ldm.envs import formats
    from ldm.errors import RecordError
    from ldm.records import Problem

    found: list[Trajectory] = []
    problems: list[Problem] = []
    for path in formats.files_below(paths):
        name = format_name or formats.format_of(path)
        if name is None:
            output.say(f"{path}: no trajectories, left out")
            continue
        for record in formats.read(path, name, str(data) if data else None):
            if not isinstance(record, Problem):
                found.append(record)
            elif strict:
                raise RecordError(str(record), "Correct it, or leave --strict out to skip it.")
            else:
                problems.append(record)
    for problem in problems[:SHOWN]:
        output.say(str(problem))
    if problems:
        output.say(f"{len(problems)} bad record(s) left out; {len(found)} read.")
    return found


def _report(built: BuildResult, memory: str) -> dict[str, Any]:
    goal_types = sum(len(batch.goal_types) for batch in built.batches)
    cells = sum(len(g.observation_types) for b in built.batches for g in b.goal_types)
    return {
        "env": built.env,
        "generation": built.generation.number,
        "new_trajectories": built.trajectories,
        "tuples": built.generation.tuples,
        "batches": len(built.batches),
        "goal_types": goal_types,
        "observation_types": cells,
        "seconds": built.seconds,
    }


def _show(built: BuildResult, memory: str) -> None:
    from ldm.memory import type_sizes

    if not built.trajectories:
        authors = sorted({batch.reasoner or "an unknown reasoner" for batch in built.batches})
        output.say(
            f"{built.env}: nothing new; {memory} holds all {built.skipped} trajectories already,"
            f" formed by {' and '.join(authors)} (--rebuild forms them anew).",
            error=False,
        )
        return
    rows = []
    for batch in built.batches:
        sizes = type_sizes(batch, built.rows)
        observations = sum(len(below) for _, _, below in sizes)
        tuples = sum(size for _, size, _ in sizes)
        names = "; ".join(f"{name} ({size})" for name, size, _ in sizes)
        count = len(batch.trajectories), tuples, len(sizes), observations
        rows.append((batch.id, *map(str, count), names))
    columns = ("batch", "trajectories", "tuples", "goal types", "observation types", "names")
    output.print_table(f"Memory of {built.env}", columns, rows)
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in built.seconds.items())
    output.say(
        f"{built.trajectories} trajectories added as generation {built.generation.number}:"
        f" {built.generation.tuples} tuples in {len(built.batches)} batches ({spent}) → {memory}",
        error=False,
    )
    if built.skipped:
        output.say(f"{built.skipped} were there already or came twice.", error=False)
