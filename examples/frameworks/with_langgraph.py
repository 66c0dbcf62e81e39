"""LangGraph: a graph whose store is a memory.

python examples/frameworks/with_langgraph.py
"""

from __future__ import annotations

from typing import Any

from desk import FINAL, GOAL, show
from langgraph.graph import MessagesState, StateGraph
from langgraph.store.base import BaseStore

from ldm.integrations.experience import Experience
from ldm.integrations.langgraph import ExperienceStore

NAMESPACE = ("desk", "tenant a")


def play(experience: Experience) -> list[str]:
    prompts: list[str] = []

    def answer(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
        goal = str(state["messages"][-1].content)
        known = store.search(NAMESPACE, query=goal, limit=3)
        prompts.append(
            "\n".join(f"{one.value['action']} earned {one.value['score']}" for one in known)
        )
        item = {"goal": goal, "observation": "", "action": FINAL, "score": 1.0}
        store.put(NAMESPACE, str(len(known)), item)
        return {"messages": [("assistant", FINAL)]}

    graph = StateGraph(MessagesState).add_node("answer", answer).set_entry_point("answer")
    store = ExperienceStore(experience.memory)
    graph.compile(store=store).invoke({"messages": [("user", GOAL)]})
    return prompts


if __name__ == "__main__":
    show(play)
