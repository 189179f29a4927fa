"""The requests of callers: distinct English sentences of given lengths, and Poisson arrivals."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["short", "long"]

SHORT_TOKENS = (5, 15)
"""Minimal and maximal source tokens of a short sentence, including marker and end token."""

LONG_TOKENS = (60, 96)
"""Those of a long sentence. The limit of the shipped model is 120; only Verso would split a longer sentence."""

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
    """A request to send.

    Args:
        at_s: Time in seconds after the start, whether or not earlier ones are answered.
        kind: Short or long.
        text: The text to translate.
    """

    at_s: float
    kind: Kind
    text: str


def sentence(rng: random.Random, num_tokens: Callable[[str], int], shortest: int, longest: int) -> str:
    """An English sentence whose length is uniformly distributed in a range, or slightly above.

    Args:
        rng: Source of randomness.
        num_tokens: Length of a text for the model, in tokens.
        shortest: Minimal number of tokens.
        longest: Maximal number of tokens.
    """
    while True:
        least = rng.randint(shortest, longest)
        text = _clause(rng)
        while num_tokens(_finished(text)) < least:
            longer = text + rng.choice(_JOINTS) + _clause(rng)
            if num_tokens(_finished(longer)) > longest:
                break
            text = longer
        if shortest <= num_tokens(_finished(text)) <= longest:
            return _finished(text)


def arrivals(rate: float, seconds: float, num_tokens: Callable[[str], int], seed: int) -> list[Arrival]:
    """A Poisson process of distinct sentences, four of five short.

    Args:
        rate: Mean arrivals per second.
        seconds: Duration.
        num_tokens: Length of a text for the model, in tokens.
        seed: Seed of times, kinds and texts.
    """
    rng = random.Random(seed)
    planned: list[Arrival] = []
    at_s = rng.expovariate(rate)
    mix = Mix(num_tokens, seed + 1)
    while at_s < seconds:
        planned.append(Arrival(at_s, *mix.draw()))
        at_s += rng.expovariate(rate)
    return planned


class Mix:
    """An endless sequence of distinct sentences, four of five short.

    Args:
        num_tokens: Length of a text for the model, in tokens.
        seed: Seed of kinds and texts.
    """

    def __init__(self, num_tokens: Callable[[str], int], seed: int) -> None:
        self._num_tokens = num_tokens
        self._rng = random.Random(seed)
        self._seen: set[str] = set()

    def draw(self) -> tuple[Kind, str]:
        """Return the next sentence and its kind."""
        kind: Kind = "short" if self._rng.random() < SHARE_OF_SHORT else "long"
        while True:
            text = sentence(self._rng, self._num_tokens, *(SHORT_TOKENS if kind == "short" else LONG_TOKENS))
            if text not in self._seen:
                self._seen.add(text)
                return kind, text


def _clause(rng: random.Random) -> str:
    parts = [rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_OBJECTS)]
    parts += [rng.choice(_PLACES)] * (rng.random() < 0.5) + [rng.choice(_TIMES)] * (rng.random() < 0.5)
    return " ".join(parts)


def _finished(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
