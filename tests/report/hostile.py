"""A run whose every text wants something else than to be read."""

from pathlib import Path

from ldm import records
from ldm.runs import Manifest, create
from ldm.types import EpisodeResult, Note, Step, Task, Trajectory, Usage

ATTACK = "window.attacked = true"
#: Each would act where a text becomes markup, a script, a mark of the page or a key of an object.
TEXTS = (
    f"<script>{ATTACK}</script>",
    f"</script><script>{ATTACK}</script>",
    f"<img src=x onerror='{ATTACK}'>",
    f'"><svg onload="{ATTACK}">',
    "<!--<script>",
    f"javascript:{ATTACK}",
    "@SCRIPT@ @DATA@ @STYLE@",
    "__proto__",
    "constructor",
    "\x00\x07\x1b[2J\x7f\x85",
    "\u202eltr\u2066 \u2028 \ufeff \ufffd",
    "a" + "\u0301" * 300,
    "{{x}} ${x} %s &lt;b&gt;",
)
LINE = "long " * 200_000  # a megabyte


def hostile_run(folder: Path, agent: str = "nobody") -> Path:
    """Return the directory of a finished run below `folder`."""
    plan = {"env": "toy", "split": TEXTS[1], "agent": agent, "memory": TEXTS[0]}
    run = create(folder, ("hostile",), Manifest("eval", plan, {"env": TEXTS[2]}))
    episodes = [_episode(number, text) for number, text in enumerate((*TEXTS, LINE))]
    records.write(run.directory / "trajectories.jsonl", (trial for _, trial in episodes))
    records.write(run.directory / "episodes.jsonl", (result for result, _ in episodes))
    return run.directory


def _episode(number: int, text: str) -> tuple[EpisodeResult, Trajectory]:
    task = Task(id=f"{number} {text[:500]}", env="toy", split="test", goal=text, kind=text[:100])
    steps = (
        Step(action=text, observation=text, thought=text, reward=0.5, recalls=((text[:50], 0.5),)),
        Step(action="", observation="", thought=text),
        Step(action="look", observation=text, valid=False),
    )
    notes = (
        Note(text[:50], 0, {text[:50]: text, "nested": [{"deep": [text]}]}),
        Note("votes", 0, {"steps": [[[text, 0.5], [text], text], None, 7]}),
        Note("consulted", 0, {"steps": [text, 3]}),
        Note("calls", 0, {"calls": [[0, text], [text, 0], 5]}),
        Note("deps", 0, {"rounds": [{"goals": text}]}),
        Note("lats", 0, {"tree": text}),
        Note("cot", 0, {"votes": text}),
        Note(text[:50], 0, {"tree": {"task": [text]}}),
    )
    result = EpisodeResult(
        task, text[:50], 1, 0, "error", 0.5, False, 2, 1, Usage(), 0.1, error=text, notes=notes
    )
    return result, Trajectory(task, text, steps, 0.5, False, "agent")
