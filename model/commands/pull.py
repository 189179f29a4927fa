"""The command ``pull``: models on a hub to bundles, by their names."""

from __future__ import annotations

import _thread
import argparse
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.importing.firefox_registry import PublishedModel

EPILOG = """\
examples:
  verso pull firefox:en-de firefox:de-en:tiny
  verso pull firefox:all-from-en
  verso pull --list firefox
  verso pull Helsinki-NLP/opus-mt-en-fr
  verso pull Helsinki-NLP/opus-mt-en-fr@main
  verso pull facebook/nllb-200-distilled-600M --precision float32
  verso pull Helsinki-NLP/opus-mt-ROMANCE-en --pair fr-en --pair es-en --out romance-en.pt
then:
  VERSO_MODELS=firefox:en-de,firefox:de-en verso serve
  VERSO_MODEL=hf:Helsinki-NLP/opus-mt-en-fr verso serve
  VERSO_MODELS=auto,hf:Helsinki-NLP/opus-mt-en-fr,hf:Helsinki-NLP/opus-mt-en-es verso serve
  verso translate --model "$(verso pull Helsinki-NLP/opus-mt-en-fr)" --target fr < english.txt

'verso serve' pulls a model that its settings name by itself; pull beforehand where a start must not wait, or has no
connection. Only the files that are needed are downloaded and each is compared with the digest the hub states; a
download that was interrupted continues. Then the model is imported (OPUS-MT, M2M100, NLLB-200), its bundle is kept
in the cache folder, and the path of the bundle is printed.

A name may end in @REVISION. A commit of 40 digits is pinned: once it is in the cache, it is used without a request to
the hub. A branch or tag is resolved each time; without a connection the last resolved commit is used, with a warning.

firefox:SOURCE-TARGET is a model of Firefox Translations, from Mozilla's registry; :tiny, :base-memory or :base chooses
its architecture, by default the best that is released; :DIGEST, the SHA-256 of its weights, pins it. firefox:all,
firefox:all-from-en and firefox:all-to-en name many models.

Read from the environment: VERSO_FIREFOX_REGISTRY (a mirror of Mozilla's registry), HF_ENDPOINT (another hub), HF_TOKEN
(private and gated models), HF_HUB_OFFLINE=1 (send Hugging Face no request), HTTPS_PROXY. Licences differ from model to
model; the command prints them, and the bundle keeps them.
"""

_PATIENCE_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="OWNER/NAME or OWNER/NAME@REVISION, where REVISION is a commit, tag or branch; or firefox:en-de",
    )
    parser.add_argument("--list", choices=("firefox",), help="list the models of this hub, with their published scores")
    parser.add_argument(
        "--precision",
        choices=("auto", "float32", "float16", "bfloat16", "int8"),
        default="auto",
        help="auto is int8 on a CPU with int8 instructions, float32 on others, float16 on a GPU",
    )
    parser.add_argument(
        "--cache-dir",
        type=Path,
        default=os.environ.get("VERSO_CACHE_DIR") or None,
        metavar="DIR",
        help="folder of the cached bundles; default: VERSO_CACHE_DIR, or ~/.cache/verso",
    )
    parser.add_argument(
        "--firefox-registry",
        default=os.environ.get("VERSO_FIREFOX_REGISTRY") or None,
        metavar="URL",
        help="a mirror of the registry of Firefox's models; default: VERSO_FIREFOX_REGISTRY, or Mozilla's registry",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the bundle here, instead of into the cache")
    parser.add_argument(
        "--pair",
        action="append",
        default=[],
        metavar="XX-YY",
        help="with --out: a direction to serve; may be given several times; default: all the model names",
    )
    parser.add_argument(
        "--languages",
        default="",
        metavar="XX,YY,...",
        help="with --out, of a model that translates between all its languages: those to serve; default: all",
    )
    parser.add_argument("--with-names", action="store_true", help="print the name and a tab before each path")
    parser.add_argument(
        "--end-with-input",
        action="store_true",
        help="end when standard input ends, so that a program that starts this one does not leave it behind",
    )


def run(arguments: argparse.Namespace) -> int:
    """Pull."""
    from model.artifacts.pulled import PulledName
    from model.errors import ConfigError
    from model.importing.pull import Hubs, Puller, pull_all

    if arguments.end_with_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    hubs = Hubs(_say, arguments.firefox_registry)
    if arguments.list is not None:
        _list(hubs.firefox.registry.models)
        return 0
    if not arguments.names:
        raise ConfigError("Name a model, such as firefox:en-de; 'verso pull --list firefox' lists Firefox's models.")
    if (arguments.pair or arguments.languages) and arguments.out is None:
        raise ConfigError("--pair and --languages make another bundle than the one the cache keeps; add --out FILE.")
    names = [PulledName.parse(name) for name in arguments.names]
    if arguments.out is not None and (len(names) > 1 or names[0].is_group):
        raise ConfigError("--out FILE is for one model; pull the others in commands of their own.")
    if arguments.precision == "auto":
        from model.artifacts.pretrained import preferred_precision

        arguments.precision = preferred_precision("cpu")
    precision, cache_dir = arguments.precision, arguments.cache_dir
    if arguments.out is None:
        for name, path in pull_all(names, precision, cache_dir, hubs, report=_say, progress=_bar):
            print(f"{name}\t{path}" if arguments.with_names else path, flush=True)
        return 0
    from model.commands.models import parse_pair
    from model.importing.family import Overrides
    from model.languages import standard_code

    overrides = Overrides(
        tuple(parse_pair(pair) for pair in arguments.pair),
        tuple(standard_code(code) for code in arguments.languages.split(",") if code.strip()),
    )
    puller = Puller(names[0], precision, cache_dir, hubs=hubs, report=_say, progress=_bar)
    print(puller.to_file(arguments.out, overrides))
    return 0


def _list(models: Sequence[PublishedModel]) -> None:
    """Print the models of the registry, with the scores on FLORES-200+ that Mozilla published."""
    for model in models:
        name = f"firefox:{model.pair}:{model.architecture}"
        scores = ", ".join(f"{metric} {score:.4g}" for metric, score in sorted(model.scores.items()))
        print(f"{name:32}  {model.weights.size / 1e6:3.0f} MB  {model.status or 'no status':16}  {scores}".rstrip())


def _say(line: str) -> None:
    # Not that of model.commands.models, which imports torch: a model that is in the cache needs none.
    print(line, file=sys.stderr, flush=True)


def _bar(items: Iterable[Any], label: str, total: int) -> Iterable[Any]:
    from model.commands.models import with_progress

    return with_progress(items, label, total, "parts")


def _end_with_input() -> None:
    # Not sys.stdin.read(), whose lock the interpreter could not take at its end.
    while os.read(0, 4096):
        pass
    _thread.interrupt_main()  # removes unfinished files
    threading.Event().wait(_PATIENCE_S)
    os._exit(1)
