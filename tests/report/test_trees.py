"""Trees as reports draw them: of searches and of explorations."""

from ldm.agents import Resources
from ldm.agents.lats import REPORTING, LatsAgent, LatsOptions
from ldm.episode import run_episode
from ldm.explore.refine import Tree
from ldm.explore.report import drawn as drawn_tree
from ldm.explore.tree import TreeNode
from ldm.reporting import Branch
from ldm.types import Task, Trajectory
from tests.agents.scripted import Scripted
from tests.agents.test_lats import Fork, Guide


def drawn_lines(all_branches: tuple[Branch, ...]) -> list[str]:
    """Each branch on a line: indented, with its state."""
    return [f"{'  ' * one.depth}{one.text} [{one.state or one.words}]" for one in all_branches]


def test_a_search_has_a_branch_for_each_node_below_its_parent() -> None:
    guide = Guide({"": "ab", "a": "ab", "b": "ab"}, {"a": 0.2, "b": 0.9})
    agent = LatsAgent(LatsOptions(width=2, simulations=2), Resources(llm=Scripted(guide)))
    env = Fork({"ba": 1.0})
    result, _ = run_episode(env, agent, env.tasks("test")[0])
    (note,) = [one for one in result.notes if one.kind == "lats"]
    tree = REPORTING.tree(result)
    assert tree is not None
    assert tree.paths
    assert len(tree.branches) == len(note.data["tree"])
    assert tree.branches[0].text == "the task"
    depths = [one.depth for one in tree.branches]
    assert all(after <= before + 1 for before, after in zip(depths, depths[1:], strict=False))
    assert {"value", "visits"} <= set(tree.branches[1].figures)


def node(number: int, parent: int, depth: int, action: str, fate: str, **more: float) -> TreeNode:
    values = {"confidence": 0.5, "path_confidence": 0.25, **more}
    return TreeNode(number, parent, depth, action, fate=fate, **values)  # type: ignore[arg-type]


def test_an_exploration_goes_along_its_best_path_first() -> None:
    task = Task("t", "toy", "train", "g", "k")
    ground = Trajectory(task, "o", (), 0.0, False, "agent")
    nodes = (
        node(0, -1, 0, "", "grown"),
        node(1, 0, 1, "left", "grown"),
        node(2, 0, 1, "right", "grown"),
        node(3, 0, 1, "up", "pruned"),
        node(4, 1, 2, "wall", "invalid"),
        node(5, 2, 2, "door", "done", score=1.0),
    )
    tree = Tree(("b",), ground, nodes, best=5, key=0)
    drawn = drawn_tree(tree).branches
    assert drawn_lines(drawn) == [
        "the opening []",
        "  right []",
        "    door [done]",
        "  left []",
        "    wall [failed]",
        "  up [pruned]",
    ]
    assert [one.text for one in drawn if one.chosen] == ["the opening", "right", "door"]
    assert [one.text for one in drawn if one.key] == ["right"]
    assert drawn[2].figures == {"confidence": "0.50", "of the path": "0.25", "score": "1.00"}


def test_without_a_tree_there_is_nothing_to_draw() -> None:
    task = Task("t", "toy", "train", "g", "k")
    assert drawn_tree(Tree(("b",), Trajectory(task, "o", (), 1.0, True, "agent"))).branches == ()
