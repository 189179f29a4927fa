"""Import a checkpoint of OPUS-MT's shape and compare it, over HTTP, with transformers.

    python benchmarks/importing.py --text DATA/eval/tatoeba-test-v2020-07-28.en --train DATA/train/tatoeba

It makes a random checkpoint (d512, 6+6 layers, 32,000 pieces), imports it, measures time and memory of the import,
serves the bundle and translates sentences with both. Needs the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import sentencepiece
import torch

from model.training.corpus import read_lines

_MEASURED = """\
import sys, time
import torch
def peak():  # not ru_maxrss, which starts with the parent's
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
began = time.perf_counter()
from model.__main__ import main
code = main(sys.argv[1:])
print(time.perf_counter() - began, before, peak(), file=sys.stderr)
sys.exit(code)
"""


def make_checkpoint(folder: Path, train: Path, num_pieces: int, d_model: int, layers: int, d_ff: int) -> Any:
    """Make a folder in OPUS-MT's format with random weights; returns transformers' model of it."""
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    pieces: dict[str, None] = {}
    for name, language in (("source.spm", "en"), ("target.spm", "de")):
        with (folder / name).open("wb") as sink:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=iter(read_lines(train.with_name(f"{train.name}.{language}"))[:60_000]),
                model_writer=sink,
                vocab_size=num_pieces // 2,
                hard_vocab_limit=False,
                minloglevel=2,
            )
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromFile(str(folder / name))
        pieces.update((processor.IdToPiece(number), None) for number in range(3, len(processor)))
    missing = num_pieces - len(pieces) - 3
    ordered = ["</s>", "<unk>", *pieces, *(f"\u2581filler{number}" for number in range(missing)), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(ordered)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    pad = len(ordered) - 1
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=len(ordered),
        d_model=d_model,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=d_ff,
        decoder_ffn_dim=d_ff,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "shared" in name:
                parameter.normal_(0, 1.2 * parameter.size(1) ** -0.5)
            elif parameter.dim() == 2 and "layers" in name:
                # Peaked attention: with uniform attention all sentences would have the same output.
                sharpness = 3.0 if "q_proj" in name or "k_proj" in name else 1.0
                parameter.normal_(0, sharpness * parameter.size(1) ** -0.5)
        model.final_logits_bias.normal_(0, 0.5)
        model.final_logits_bias[0, 0] += 4.5
    model.generation_config = GenerationConfig(
        num_beams=4,
        max_length=512,
        bad_words_ids=[[pad]],
        renormalize_logits=True,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
    )
    model.save_pretrained(folder)
    return model


def measure_import(folder: Path, out: Path, precision: str) -> tuple[float, float, float]:
    """Seconds, peak memory above that of importing torch, and size of the bundle; both sizes in MB."""
    command = [sys.executable, "-c", _MEASURED, "import", str(folder), "--out", str(out), "--precision", precision]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, before, after = map(float, done.stderr.strip().splitlines()[-1].split())
    return seconds, (after - before) * 1024 / 1e6, out.stat().st_size / 1e6


@contextmanager
def served(bundle: Path) -> Iterator[str]:
    """Serve a bundle; gives the address of the service."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "VERSO_MODEL": str(bundle), "VERSO_PORT": str(port), "VERSO_LOG_LEVEL": "error"}
    process = subprocess.Popen([sys.executable, "-m", "app"], env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit("the service ended")
            try:
                if httpx.get(f"{address}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass  # not listening yet
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    """Make, import, serve, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument(
        "--train", type=Path, required=True, help="parallel corpus, without language ending, to learn vocabularies from"
    )
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--pieces", type=int, default=32_000)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--d-ff", type=int, default=2048)
    parser.add_argument("--max-new-tokens", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    figures: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "opus-mt-en-de"
        model = make_checkpoint(
            folder, arguments.train, arguments.pieces, arguments.d_model, arguments.layers, arguments.d_ff
        )
        float32_mb = sum(parameter.numel() for parameter in model.parameters()) * 4 / 1e6
        figures["checkpoint_mb"] = round((folder / "model.safetensors").stat().st_size / 1e6, 1)
        figures["float32_mb"] = round(float32_mb, 1)
        print(f"checkpoint: {figures['checkpoint_mb']} MB, float32 weights {float32_mb:.1f} MB")
        for precision in ("int8", "float32"):
            seconds, peak_mb, size_mb = measure_import(folder, Path(name) / f"{precision}.pt", precision)
            figures[f"import_{precision}"] = {
                "seconds": round(seconds, 1),
                "peak_mb_above_torch": round(peak_mb, 1),
                "peak_over_float32_size": round(peak_mb / float32_mb, 2),
                "bundle_mb": round(size_mb, 1),
            }
            print(f"import to {precision}: {figures[f'import_{precision}']}")
        compare(model, folder, Path(name), arguments, figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def compare(model: Any, folder: Path, bundles: Path, arguments: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Translate the same sentences with transformers and with the service."""
    from transformers import MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)
    lines = read_lines(arguments.text)
    # One sentence per line: the service splits texts into sentences, transformers does not.
    texts = [line for line in lines if line.endswith(".") and line.count(".") == 1][: arguments.sentences]
    for beam_size in (1, 4):
        began = time.perf_counter()
        expected: list[str] = []
        with torch.inference_mode():
            for start in range(0, len(texts), 16):
                batch = tokenizer(texts[start : start + 16], return_tensors="pt", padding=True)
                answers = model.generate(
                    **batch,
                    num_beams=beam_size,
                    length_penalty=1.0,
                    early_stopping=False,
                    do_sample=False,
                    no_repeat_ngram_size=2,  # random weights often repeat tokens
                    max_length=arguments.max_new_tokens + 1,
                )
                expected += tokenizer.batch_decode(answers, skip_special_tokens=True)
        theirs = time.perf_counter() - began
        words = sum(len(text.split()) for text in expected) / len(expected)
        print(f"transformers, beam {beam_size}: {len(texts) / theirs:.1f} sentences/s, answers of {words:.1f} words")
        print("  for instance", expected[:3])
        for precision in ("float32", "int8"):
            with served(bundles / f"{precision}.pt") as address:
                body = {
                    "text": texts,
                    "decoding": "greedy" if beam_size == 1 else "beam",
                    "beam_size": beam_size,
                    "no_repeat_ngram_size": 2,
                    "max_new_tokens": arguments.max_new_tokens,
                }
                httpx.post(f"{address}/translate", json={**body, "text": texts[:8]}, timeout=120).raise_for_status()
                began = time.perf_counter()
                answer = httpx.post(f"{address}/translate", json=body, timeout=600)
                ours = time.perf_counter() - began
            answer.raise_for_status()
            found = [entry["text"] for entry in answer.json()["translations"]]
            same = sum(one == other for one, other in zip(expected, found, strict=True))
            figures[f"beam_{beam_size}_{precision}"] = {
                "sentences": len(texts),
                "same_text_as_transformers": same,
                "sentences_per_s": round(len(texts) / ours, 1),
                "transformers_sentences_per_s": round(len(texts) / theirs, 1),
            }
            rate = f"{len(texts) / ours:.1f} sentences/s"
            print(f"  Verso {precision} over HTTP: {same} of {len(texts)} the same, {rate}")


if __name__ == "__main__":
    sys.exit(main())
