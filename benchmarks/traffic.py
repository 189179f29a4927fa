"""What callers send and when: distinct English sentences of wanted lengths, and Poisson arrivals."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["short", "long"]

SHORT_TOKENS = (5, 15)
"""Fewest and most source tokens of a short sentence, marker and end token included."""

LONG_TOKENS = (60, 96)
"""Of a long one. The model that ships takes 100; a longer sentence would be split by Verso alone."""

SHARE_OF_SHORT = 0.8


def _phrases(text: str) -> list[str]:
    return text.split(",")


_SUBJECTS = _phrases(
    "the old man,my sister,a young doctor,our neighbour,the teacher,her brother,Tom,Mary,the children,my best friend,"
    "the police officer,his uncle,a small boy,the woman in the red dress,our boss,the new student,my grandmother,"
    "the farmer,a tourist,the driver,her cousin,the singer,an engineer,the man from Boston,their daughter,the nurse,"
    "his wife,a stranger,the baker,my father"
)
_VERBS = _phrases(
    "bought,found,sold,lost,forgot,saw,took,brought,painted,needed,wanted,broke,cleaned,repaired,showed me,gave me,"
    "sent us,liked,hid,carried,opened,drew,watched,remembered,stole,chose,described,looked for,paid for,waited for"
)
_OBJECTS = _phrases(
    "a book,the letter,two apples,an old car,the key,some bread,a big house,the newspaper,a white dog,his bicycle,"
    "three tickets,a bottle of water,the photographs,a map of the city,her umbrella,the blue box,a cup of tea,"
    "an interesting story,the answer,some flowers,the piano,a warm coat,the last train,a difficult question,"
    "the window,a beautiful song,the wrong door,many pictures,a cheap camera,the kitchen table"
)
_PLACES = _phrases(
    "in the garden,at the station,near the river,in Germany,on the train,behind the house,at school,in the kitchen,"
    "in front of the church,at the market,in the library,on the beach,in the mountains,at the airport,"
    "in the middle of the town,by the lake,at work,in a small village,under the bridge,on the island"
)
_TIMES = _phrases(
    "yesterday,last week,on Monday,this morning,two years ago,after dinner,before the meeting,every summer,"
    "late at night,at six o'clock,during the holidays,in the winter,a few days ago,on his birthday,last Friday"
)
_JOINTS = (", and ", ", but ", " because ", " while ", ", so ", " after ", " before ", " although ")


@dataclass(frozen=True)
class Arrival:
    """A request that will be sent.

    Args:
        at_s: When, in seconds after the start, whether or not earlier ones were answered.
        kind: Short or long.
        text: What is to be translated.
    """

    at_s: float
    kind: Kind
    text: str


def sentence(chance: random.Random, num_tokens: Callable[[str], int], shortest: int, longest: int) -> str:
    """An English sentence of a length that is drawn evenly from a range, or just above it.

    Args:
        chance: Decides the words.
        num_tokens: Length of a text for the model, in tokens.
        shortest: Fewest tokens.
        longest: Most tokens.
    """
    while True:
        wanted = chance.randint(shortest, longest)
        text = _clause(chance)
        while num_tokens(_finished(text)) < wanted:
            longer = text + chance.choice(_JOINTS) + _clause(chance)
            if num_tokens(_finished(longer)) > longest:
                break
            text = longer
        if shortest <= num_tokens(_finished(text)) <= longest:
            return _finished(text)


def arrivals(rate: float, seconds: float, num_tokens: Callable[[str], int], seed: int) -> list[Arrival]:
    """A Poisson process of sentences, four of five short, no two the same.

    Args:
        rate: Mean arrivals a second.
        seconds: How long it lasts.
        num_tokens: Length of a text for the model, in tokens.
        seed: Decides times, kinds and texts.
    """
    chance = random.Random(seed)
    found: list[Arrival] = []
    at_s = chance.expovariate(rate)
    mix = Mix(num_tokens, seed + 1)
    while at_s < seconds:
        found.append(Arrival(at_s, *mix.draw()))
        at_s += chance.expovariate(rate)
    return found


class Mix:
    """Sentences without end, four of five short, no two the same.

    Args:
        num_tokens: Length of a text for the model, in tokens.
        seed: Decides kinds and texts.
    """

    def __init__(self, num_tokens: Callable[[str], int], seed: int) -> None:
        self._num_tokens = num_tokens
        self._chance = random.Random(seed)
        self._seen: set[str] = set()

    def draw(self) -> tuple[Kind, str]:
        """The next one."""
        kind: Kind = "short" if self._chance.random() < SHARE_OF_SHORT else "long"
        while True:
            text = sentence(self._chance, self._num_tokens, *(SHORT_TOKENS if kind == "short" else LONG_TOKENS))
            if text not in self._seen:
                self._seen.add(text)
                return kind, text


def _clause(chance: random.Random) -> str:
    parts = [chance.choice(_SUBJECTS), chance.choice(_VERBS), chance.choice(_OBJECTS)]
    parts += [chance.choice(_PLACES)] * (chance.random() < 0.5) + [chance.choice(_TIMES)] * (chance.random() < 0.5)
    return " ".join(parts)


def _finished(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
