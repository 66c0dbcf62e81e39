"""English text analysis equivalent to Lucene's EnglishAnalyzer.

Text is split into words by the rules of UAX #29 as implemented by Lucene's standard tokenizer;
possessive endings are removed, case is folded, 33 stop words are dropped, and the rest is stemmed
with Porter's algorithm.
"""

from __future__ import annotations

from functools import cache

import regex

from ldm.envs.facts import facts
from ldm.envs.lucene.porter import stem

#: Lucene splits longer words into pieces of this many UTF-16 units.
LONGEST_WORD = 255
_FACTS = facts(__file__)
STOP_WORDS = frozenset(_FACTS["stop_words"])


@cache
def _word() -> regex.Pattern[str]:
    """Return the pattern of a word, based on the Word_Break property of its characters."""
    follow = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"

    def one(of: str) -> str:
        return f"(?:{of}{follow})"

    extend = one(r"\p{WB=ExtendNumLet}")
    katakana = one(r"\p{WB=Katakana}")
    number = one(r"\p{WB=Numeric}")
    hebrew = one(r"\p{WB=Hebrew_Letter}")
    letter = one(r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]")
    in_word = one(r"[\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
    in_number = one(r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
    run = (
        rf"(?:{hebrew}(?:{one(chr(39))}|{one(chr(34))}{hebrew})"
        rf"|{number}(?:(?:{extend}*|{in_number}){number})*"
        rf"|{letter}(?:(?:{extend}*|{in_word}){letter})*)+"
    )
    stretch = rf"(?:{katakana}(?:{extend}*{katakana})*|{run})"
    word = rf"{extend}*{stretch}(?:{extend}+{stretch})*{extend}*"
    ideograph = one(r"[\p{Script=Han}\p{Script=Hiragana}]")
    complex_script = one(r"\p{Line_Break=Complex_Context}") + "+"
    picture = f"[{_FACTS['pictures']}]"
    emoji = (
        r"(?:\p{Regional_Indicator}{2}"
        r"|[0-9#*]\uFE0F?\u20E3"
        rf"|{picture}[\uFE0F\p{{Emoji_Modifier}}]*(?:\u200D{picture}[\uFE0F\p{{Emoji_Modifier}}]*)*)"
    )
    return regex.compile(rf"{emoji}|{complex_script}|{word}|{ideograph}")


def tokens(text: str) -> list[str]:
    """Return the terms of `text` in order."""
    terms = []
    for match in _word().finditer(text):
        whole = match.group()
        for start in range(0, len(whole), LONGEST_WORD):
            word = whole[start : start + LONGEST_WORD]
            if len(word) >= 2 and word[-2] in "'\u2019\uff07" and word[-1] in "sS":
                word = word[:-2]
            # Java folds the capital dotted I to a plain i.
            word = word.replace("İ", "i").lower()
            if word not in STOP_WORDS:
                terms.append(stem(word))
    return terms
