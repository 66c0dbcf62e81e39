"""Put block in bowl: blocks belong into bowls of their colours, if there are any."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ldm.worlds.tabletop.actions import NO_ACTION, Move, Refusal, listing, pattern, reachable
from ldm.worlds.tabletop.scene import BLOCK, COLOURS, CUBE, Fixture, Layout, Pose, Poses, Scene

#: Radius of the rim and of the floor, height and thickness of a bowl.
RIM, FLOOR, HEIGHT, THICKNESS = 0.07, 0.045, 0.04, 0.004
#: A block whose centre is nearer to that of a bowl than this is in it (CLIPort).
NEAR = 0.05
_BOWLS, _BLOCKS = (3, 4), (2, 4)

_FORM = pattern("put the COLOR blocks in a BOWL bowl")


class Bowls:
    """CLIPort's put-block-in-bowl."""

    name = "put_block_in_bowl"
    instruction = "Match the blocks and the bowls."

    def draw(self, rng: random.Random) -> Scene:
        """Draw bowls and blocks of distinct colours, with a pair and a block without a bowl."""
        bowls, blocks = rng.randint(*_BOWLS), rng.randint(*_BLOCKS)
        pairs = rng.randint(1, min(blocks - 1, bowls))
        colours = rng.sample(COLOURS, bowls + blocks - pairs)
        bowl_colours, block_colours = colours[:bowls], colours[bowls - pairs :]
        rng.shuffle(block_colours)
        rng.shuffle(bowl_colours)
        layout = Layout(rng)
        fixtures = tuple(Fixture("bowl", layout.spot(RIM), colour) for colour in bowl_colours)
        things = tuple(layout.lay(c, CUBE, height=BLOCK) for c in block_colours)
        return Scene(things, fixtures)

    def opening(self, scene: Scene) -> str:
        """Name the colours of bowls and blocks."""
        bowls = listing([bowl.colour for bowl in scene.fixtures])
        blocks = listing([block.colour for block in scene.things])
        return (
            f"There are {len(scene.fixtures)} bowls: {bowls}. "
            f"There are {len(scene.things)} blocks: {blocks}."
        )

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the bowl that each block is in."""
        bowls = [self._bowl(scene, pose) for pose in poses]
        return ["on the table" if b is None else f"in the {b.colour} bowl" for b in bowls]

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List each block with each bowl in which it is not."""
        return [
            f"put the {block.colour} blocks in a {bowl.colour} bowl"
            for number, block in enumerate(scene.things)
            for bowl in scene.fixtures
            if self._bowl(scene, poses[number]) is not bowl
            and reachable(scene, poses, number) is None
        ]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a block into the middle of a bowl."""
        match = _FORM.fullmatch(action)
        if match is None:
            return NO_ACTION
        blocks = [block.colour for block in scene.things]
        bowls = {bowl.colour: bowl for bowl in scene.fixtures}
        if match["color"] not in blocks:
            return Refusal(f"There is no {match['color']} block here.")
        if match["bowl"] not in bowls:
            return Refusal(f"There is no {match['bowl']} bowl here.")
        number, bowl = blocks.index(match["color"]), bowls[match["bowl"]]
        target = Pose(bowl.pose.x, bowl.pose.y, THICKNESS + BLOCK / 2, poses[number].yaw)
        return reachable(scene, poses, number) or Move(number, target, f"the {bowl.colour} bowl")

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of pairs met, less blocks in bowls of other colours."""
        colours = {bowl.colour for bowl in scene.fixtures}
        pairs = sum(block.colour in colours for block in scene.things)
        met = stray = 0
        for block, pose in zip(scene.things, poses, strict=True):
            bowl = self._bowl(scene, pose)
            met += bowl is not None and bowl.colour == block.colour
            stray += bowl is not None and bowl.colour != block.colour
        return max(0, met - stray) / pairs

    def goals(self) -> Iterator[str]:
        """Yield each colour of a block with each of a bowl."""
        for block in COLOURS:
            yield from (f"put the {block} blocks in a {bowl} bowl" for bowl in COLOURS)

    def _bowl(self, scene: Scene, pose: Pose) -> Fixture | None:
        """Return the bowl that a block is in."""
        return next((b for b in scene.fixtures if pose.distance(b.pose) <= NEAR), None)
