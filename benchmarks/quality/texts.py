"""What is put into perturbed inputs: names, numbers, signs, code, and characters of every Unicode block."""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import pairwise

NAMES = (
    "Ayşe",
    "Björn",
    "Chidi",
    "Guadalupe",
    "Hiroshi",
    "Ingrid",
    "Kowalski",
    "Nguyen",
    "Olumide",
    "Priya",
    "Svetlana",
)
NUMBERS = ("7", "23", "1,984", "3.5", "42 %", "10:30", "2026-11-21", "0171 555 0199")
SIGNS = ("🙂", "https://example.org/a?b=c", "user@example.org", "#2", "C++", "…", "„“", "→", "½", "日本")

GIVEN_NAMES = (
    "Agnieszka", "Aoife", "Bashir", "Chiamaka", "Dmitri", "Esperanza", "Fatoumata", "Gökhan", "Hyun-woo", "Ilse",
    "Joaquín", "Kwame", "Lakshmi", "Małgorzata", "Ngozi", "Øyvind", "Parvaneh", "Quỳnh", "Rahul", "Siobhán",
    "Thanh", "Uchenna", "Věra", "Xiomara", "Yusuf", "Zsófia",
)  # fmt: skip
FAMILY_NAMES = (
    "Abernathy", "Bajwa", "Castañeda", "D'Angelo", "Eriksson", "Fitzwilliam", "García Márquez", "Hakimi", "Ivanova",
    "Jørgensen", "Kovács", "Lindqvist", "McAllister", "Nakamura", "O'Connell", "Papadopoulos", "Qureshi",
    "Reißner", "Szymański", "Tchaikovsky", "van der Meer", "Wójcik", "Yıldız", "Zubkov",
)  # fmt: skip
PLACES = (
    "Aarhus", "Bratislava", "Chattanooga", "Dubrovnik", "Eindhoven", "Fukuoka", "Guadalajara", "Huddersfield",
    "Iași", "Johannesburg", "Kilkenny", "Ljubljana", "Mönchengladbach", "Nairobi", "Ouagadougou", "Porto Alegre",
    "Quito", "Reykjavík", "São Paulo", "Tegucigalpa", "Uppsala", "Valparaíso", "Winnipeg", "Yaoundé", "Łódź",
)  # fmt: skip
"""Places with the same name in English and German."""

COMPANIES = (
    "Acme Corp.", "Brown & Partners Ltd.", "Contoso", "Dräger-Klein GmbH", "Evergreen Logistics", "Fabrikam, Inc.",
    "Globex", "Hooli", "Initech", "Jansen & Zonen B.V.", "K3-Systems AG", "Lumière S.A.", "Müller Söhne KG",
    "Northwind Traders", "O'Neill Foods", "Pied Piper", "Quantum-X", "Soylent", "Tyrell", "Umbrella plc", "Wayne-Tech",
)  # fmt: skip
CODE = (
    "for (int i = 0; i < n; i++) { sum += a[i]; }", "print(len(names))", "SELECT name FROM users WHERE id = 7;",
    "git commit -m 'fix'", "x = foo(bar)[0]", "if err != nil { return err }", "let total = items.length;",
    "def add(a, b): return a + b", "sudo apt install nginx", "std::vector<int> v(10);", "a && b || !c",
    '{"id": 7, "tags": ["a", "b"]}', "const f = (x) => x * 2;", "#include <stdio.h>", "rm -rf build/",
)  # fmt: skip
REPEATED_MARKS = ("!!!!!!", "??????", "?!?!?!", "......", "----------", "!!!1!!1!", "~~~~~~", ",,,,,", "*****")
EMOJI = (
    *"😀😂🙏🔥🎉🥲🫠🦄🍕🚀🏳💡", "❤️", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇬🇧", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "1️⃣", "#️⃣", "☎️", "✈️", "🤷🏿‍♀️",
)  # fmt: skip
BULLETS = ("-", "*", "•", "1.", "a)")
"""Marks of list items; those with a number or letter count on."""

COMMON_FIRST_NAMES = frozenset({
    "Tom", "Mary", "Maria", "John", "Johannes", "James", "Robert", "Michael", "William", "David", "Richard", "Joseph",
    "Thomas", "Charles", "Daniel", "Matthew", "Anthony", "Steven", "Andrew", "Paul", "Joshua", "Kenneth", "Kevin",
    "Brian", "George", "Edward", "Ronald", "Timothy", "Jason", "Jeffrey", "Ryan", "Jacob", "Jakob", "Gary", "Nicholas",
    "Eric", "Jonathan", "Stephen", "Larry", "Justin", "Scott", "Brandon", "Benjamin", "Samuel", "Sami", "Layla",
    "Yanni", "Ziri", "Skura", "Ken", "Jim", "Emily", "Alice", "Patricia", "Jennifer", "Linda", "Elizabeth", "Barbara",
    "Susan", "Jessica", "Sarah", "Karen", "Lisa", "Nancy", "Betty", "Margaret", "Sandra", "Ashley", "Kimberly",
    "Donna", "Michelle", "Carol", "Amanda", "Melissa", "Deborah", "Stephanie", "Rebecca", "Laura", "Helen", "Anna",
    "Peter", "Hans", "Klaus", "Jürgen", "Wolfgang", "Stefan", "Andreas", "Sabine", "Petra", "Monika", "Ursula",
    "Claudia", "Heinz", "Helmut", "Günther", "Werner", "Julia", "Martin", "Philip", "Judy", "Jane", "Bob", "Mike",
})  # fmt: skip
"""Names that are frequent in training text and no other words."""

_BLOCK_STARTS = """
0 80 100 180 250 2b0 300 370 400 500 530 590 600 700 750 780 7c0 800 840 860 870 8a0 900 980 a00 a80 b00 b80 c00 c80
d00 d80 e00 e80 f00 1000 10a0 1100 1200 1380 13a0 1400 1680 16a0 1700 1720 1740 1760 1780 1800 18b0 1900 1950 1980
19e0 1a00 1a20 1ab0 1b00 1b80 1bc0 1c00 1c50 1c80 1c90 1cc0 1cd0 1d00 1d80 1dc0 1e00 1f00 2000 2070 20a0 20d0 2100
2150 2190 2200 2300 2400 2440 2460 2500 2580 25a0 2600 2700 27c0 27f0 2800 2900 2980 2a00 2b00 2c00 2c60 2c80 2d00
2d30 2d80 2de0 2e00 2e80 2f00 2ff0 3000 3040 30a0 3100 3130 3190 31a0 31c0 31f0 3200 3300 3400 4dc0 4e00 a000 a490
a4d0 a500 a640 a6a0 a700 a720 a800 a830 a840 a880 a8e0 a900 a930 a960 a980 a9e0 aa00 aa60 aa80 aae0 ab00 ab30 ab70
abc0 ac00 d7b0 f900 fb00 fb50 fe00 fe10 fe20 fe30 fe50 fe70 ff00 fff0 10000 10080 10100 10140 10190 101d0 10280 102a0
102e0 10300 10330 10350 10380 103a0 10400 10450 10480 104b0 10500 10530 10570 105c0 10600 10780 10800 10840 10860
10880 108e0 10900 10920 10940 10980 109a0 10a00 10a60 10a80 10ac0 10b00 10b40 10b60 10b80 10c00 10c80 10d00 10d40
10e60 10e80 10ec0 10f00 10f30 10f70 10fb0 10fe0 11000 11080 110d0 11100 11150 11180 111e0 11200 11280 112b0 11300
11380 11400 11480 11580 11600 11660 11680 116d0 11700 11800 118a0 11900 119a0 11a00 11a50 11ab0 11ac0 11b00 11b60
11bc0 11c00 11c70 11d00 11d60 11db0 11df0 11ee0 11f00 11fb0 11fc0 12000 12400 12480 12550 12f90 13000 13430 13460
14400 16100 16800 16a40 16a70 16ad0 16b00 16d40 16e40 16ea0 16f00 16fe0 17000 18800 18b00 18d00 18d80 18e00 191a0
1aff0 1b000 1b100 1b130 1b170 1bc00 1bca0 1cc00 1cec0 1cf00 1d000 1d100 1d200 1d250 1d2c0 1d2e0 1d300 1d360 1d400
1d800 1db00 1df00 1e000 1e030 1e100 1e290 1e2c0 1e4d0 1e5d0 1e6c0 1e7e0 1e800 1e900 1ec70 1ed00 1ee00 1f000 1f030
1f0a0 1f100 1f200 1f300 1f600 1f650 1f680 1f700 1f780 1f800 1f900 1fa00 1fa70 1fb00 20000 2a700 2b740 2b820 2ceb0
2ebf0 2f800 30000 31350 323b0 3d000 e0000 e0100
"""
"""The first characters of Unicode's blocks (Blocks.txt of Unicode 18), without surrogates and private use."""

_END = 0xE01F0
_NOT_SAMPLED = {"Cn", "Cs", "Co", "Cc", "Zs", "Zl", "Zp"}
"""Not assigned, surrogates, private use, control characters, spaces."""


@cache
def unicode_blocks() -> tuple[str, ...]:
    """The assigned characters of each Unicode block that has some, without spaces, control characters and U+FFFD."""
    starts = [*(int(start, 16) for start in _BLOCK_STARTS.split()), _END]
    blocks = (
        "".join(
            character
            for character in map(chr, range(start, end))
            if unicodedata.category(character) not in _NOT_SAMPLED and character != "\ufffd"
        )
        for start, end in pairwise(starts)
    )
    return tuple(block for block in blocks if block)
