"""WebShop's rules, actions and skills in words, for any agent's prompt."""

from ldm.types import Card

KIND = "buy"

#: Steps of a trial, thoughts included: ADaPT's 15 of an executor (arXiv 2311.05772, App. A) times
#: its d_max of 3, as its baselines have them (§4.2).
_LOOP = {"budget": 45}
#: Options of ADaPT's executors; they are shown atomic skills (its App. A).
_EXECUTOR: dict[str, int | str] = {"executor_steps": 15, "strength": "skills"}

CARD = Card(
    name="webshop",
    rules=(
        "You are shopping on a web site. The search page holds an instruction: a product with some "
        "attributes, often with options such as size and colour, and the most that it may cost. "
        "What can be clicked stands in brackets. A search lists products, some on each page; a "
        "product's page shows its price and options and leads to its description and features. "
        "Options are chosen by clicking on their values; one that is chosen has two brackets. "
        "The pages with the description, the features and the reviews have no Buy Now: "
        "click[< Prev] leads back to the product. "
        "Buying ends the task, and the product should fit the instruction in kind, attributes, "
        "options and price. An action that is not possible answers 'Invalid action!' and changes "
        "nothing."
    ),
    actions=(
        "search[WORDS]: look for products; the search box is on the search page",
        "click[Back to Search]: go to the search page",
        "click[Next >]: go to the next page of the results",
        "click[< Prev]: go back one page",
        "click[PRODUCT]: open a product of the results by its code, as in click[B078GWRC1J]",
        "click[VALUE]: choose an option of the product, as in click[large]",
        "click[Description], click[Features], click[Reviews]: read about the product",
        "click[Buy Now]: buy the product with the options chosen; this ends the task",
    ),
    skills=(
        "find PRODUCTS: from the search page search for the kind and the attributes asked for",
        "shortlist PRODUCTS: of the results on the page give the codes of those that may be what "
        "is asked for",
        "open PRODUCT: click on a product of the results",
        "match PRODUCT: say whether the product on the page is what is asked for, price included",
        "choose OPTIONS: on the product's page click each value that is asked for",
        "buy PRODUCT: with it open and its options chosen, buy it",
    ),
    judged=("shortlist", "match"),
    kinds={KIND: "buy a product that fits an instruction"},
    handover="page",
    # Of products: Amazon's begin with B and a digit, those of our own shop with L.
    codes=r"\b(?:B\d[A-Z0-9]{8}|L[0-9A-F]{9})\b",
    published={
        "act": _LOOP,
        "react": _LOOP,
        "plan_hint": _LOOP,
        "plan_execute": _EXECUTOR,
        "lats": {"budget": 15, "simulations": 30},  # LATS, arXiv 2310.04406, the authors' code
        "reflexion": {**_LOOP, "trials": 4},  # LDM², arXiv 2312.08402, Table 1
        "try_again": {**_LOOP, "trials": 3},  # ADaPT §4.2: d_max
        "adapt": {"d_max": 3, **_EXECUTOR},  # ADaPT §4.2
    },
    free={"search": "your own keywords"},
    verified=(
        "which parts of the instruction (kind, attributes, options, price) the page verifies, and "
        "which it does not"
    ),
    final=("click[Buy Now]",),
    outline="You shop on a web site, for a product that fits an instruction.",
)
