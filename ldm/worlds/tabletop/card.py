"""The tabletop's rules, actions and skills in words, for any agent's prompt."""

from ldm.types import Card, Reading
from ldm.worlds.tabletop.kinds import KINDS

#: Moves until a task is over: k of DEPS, arXiv 2302.01560, App. A.2.
LIMIT = 15
#: Options of LLM-based planners and executors; the paper has one step per goal.
_LOOP = {"budget": LIMIT}

CARD = Card(
    name="tabletop",
    rules=(
        "You rearrange things on a table with a gripper, which picks one thing at a time from "
        "above and puts it down elsewhere. The first observation says what there is, what is "
        "where, and the task; each answer says what is where now. A thing that is under another "
        "one cannot be picked. An object fits only the hole of its own shape. Of the rings only "
        "the top one of a place can be moved, and never onto a smaller ring. A block whose colour "
        "no bowl has stays out of the bowls. A pyramid has three blocks on the three brown blocks "
        "of the base, two on these, each on two neighbours, and one on top. The gripper may miss, "
        "and may put a thing down beside its place: what is not where it should be can be moved "
        "again. An action that is impossible changes nothing, and the answer says why. "
        f"After {LIMIT} actions the task is over."
    ),
    actions=(
        "put the COLOR SHAPE in the SHAPE hole: put an object into the kit's hole of its shape",
        "move the COLOR ring to the PLACE: put a ring on the lighter brown side, the middle of the "
        "stand or the darker brown side, on the rings that are there",
        "put the COLOR blocks in a COLOR bowl: put the block of the first colour into the bowl of "
        "the second",
        "pack the COLOR SHAPE in the brown box: put an object into the box",
        "put the COLOR block on the lightest brown block: put a block on the base; likewise the "
        "middle brown block and the darkest brown block",
        "put the COLOR block on the COLOR and COLOR blocks: put a block on two others, which are "
        "side by side",
        "look: say what is where",
    ),
    skills=(
        "put THING in PLACE: pick a thing and put it down where it belongs",
        "correct THING: pick a thing that is not quite in its place, and put it there again",
        "free THING: move away what lies on it",
        "check THING: see in the last answer whether it is where it belongs",
    ),
    judged=("check",),
    kinds={
        "assembling_kits": "put each object into the hole of its shape",
        "towers_of_hanoi": "move all rings to the darker brown side, one at a time, never a larger "
        "one onto a smaller one",
        "put_block_in_bowl": "put each block into the bowl of its colour, where there is one",
        "packing_shapes": "put all objects into the brown box",
        "stack_block_pyramid": "stack six blocks on the base: three, two, one",
    },
    published={"deps": _LOOP},
    outline="You rearrange things on a table with a gripper.",
    goals=tuple(goal for kind in KINDS.values() for goal in kind.goals()),
    reading=Reading(done="^You carry |^The "),  # a look is answered by where things are
)
