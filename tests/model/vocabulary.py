"""A few dozen sentences and the tokenizer learned from them."""

from __future__ import annotations

from model.text.tokenizer_training import learn_tokenizer
from tests.toy import WORDS

SENTENCES = [f"{a} {b}." for a in WORDS for b in WORDS.values()]
TOKENIZER = learn_tokenizer(SENTENCES, 290, ["de", "en"])
