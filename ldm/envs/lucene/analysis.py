"""English text analysis equivalent to Lucene's EnglishAnalyzer.

Text is split into words by the rules of UAX #29 as implemented by Lucene's standard tokenizer;
possessive endings are removed, case is folded, 33 stop words are dropped, and the rest is stemmed
with Porter's algorithm.
"""

from __future__ import annotations

from functools import cache

import regex

from ldm.envs.lucene.porter import stem

#: Lucene splits longer words into pieces of this many UTF-16 units.
LONGEST_WORD = 255
_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())

#: Extended_Pictographic as of Unicode 12.1, the version that Lucene's tokenizer implements.
_PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf"
    "\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612"
    "\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747"
    "\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935"
    "\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171"
    "\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5"
    "\U0001f201-\U0001f20f\U0001f21a\U0001f22f\U0001f232-\U0001f23a\U0001f23c-\U0001f23f"
    "\U0001f249-\U0001f3fa\U0001f400-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff"
    "\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f80c-\U0001f80f\U0001f848-\U0001f84f"
    "\U0001f85a-\U0001f85f\U0001f888-\U0001f88f\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a"
    "\U0001f93c-\U0001f945\U0001f947-\U0001fffd"
)


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
    picture = f"[{_PICTURES}]"
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
