"""HotpotQA's rules, actions and skills in words, for any agent's prompt."""

from ldm.types import Card

#: ReAct's loop ends after seven thoughts and seven actions (Yao et al., arXiv 2210.03629, §3.2).
_LOOP = {"budget": 14}

CARD = Card(
    name="hotpotqa",
    rules=(
        "You answer a question from a collection of short articles. An article is found by its "
        "title; a search shows its first five sentences. If no article has that title, the answer "
        "lists titles that are similar, and the article that was open stays open. A lookup shows "
        "the next sentence of the open article that contains the words; the same lookup again "
        "shows the one after it. Most questions need two articles: the first one names what the "
        "second is about, or both are compared. Answer once, in as few words as the question asks "
        "for: a name, a date, a number, or yes or no."
    ),
    actions=(
        "search[TITLE]: open the article with this title",
        "lookup[WORDS]: show the next sentence of the open article with these words",
        "finish[ANSWER]: give the answer, which ends the task",
    ),
    skills=(
        "find PAGE: search an article by its title, if need be by one of the similar titles",
        "read PAGE: learn from the first sentences of the article what is asked for",
        "look up WORDS: go through the sentences of the open article that contain the words",
        "compare THING and THING: decide from what was read which one fits the question",
        "answer: finish with the answer in as few words as possible",
    ),
    judged=("read", "compare"),
    kinds={
        "bridge": "follow one article to another and answer from that",
        "comparison": "compare what two articles say",
    },
    answer="finish[ANSWER]",
    published={
        "act": _LOOP,
        "react": _LOOP,
        "lats": {"budget": 7, "simulations": 50},  # LATS, arXiv 2310.04406, the authors' code
        "reflexion": {**_LOOP, "trials": 5},  # Shinn et al., arXiv 2303.11366, §4.2
        "autoplan": {"budget": 10, "pool": 50},  # AutoPlan, arXiv 2305.15064, §4.2 and §4.1
    },
    repeatable=("lookup",),
    final=("finish[",),
    outline="You answer a question by looking it up in a collection of articles.",
    # AutoPlan's task description includes the effects of the three actions (§4.1).
    bare_actions=(
        "search[TITLE]: open the article with this title, which shows its first five sentences; "
        "without such an article, list five titles that are similar",
        "lookup[WORDS]: show the next sentence of the open article with these words",
        "finish[ANSWER]: give the answer, which ends the task",
    ),
)
