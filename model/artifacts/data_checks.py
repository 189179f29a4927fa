"""Checks that the numbers, rules and vocabulary of a data-only bundle fit its architecture.

A TorchScript bundle is a program from a trusted source and is not checked. A data-only bundle may come from anywhere: a
token id that the model does not have would make it read beyond the end of its tables.
"""

from __future__ import annotations

from model.artifacts.format import DATA_FORMAT_VERSION
from model.artifacts.manifest import Manifest
from model.errors import ArtifactError
from model.network.config import ModelConfig
from model.network.padding import NO_PAD_ID
from model.text.symbols import NUM_PLACEHOLDERS
from model.text.tokenizer import Tokenizer, VersoTokenizer


def check_data(manifest: Manifest, tokenizer: Tokenizer) -> None:
    """Refuse a manifest or a vocabulary that contradicts the architecture.

    Raises:
        ArtifactError: The manifest or the vocabulary contradicts the architecture.
        ConfigError: The architecture is not possible.
    """
    config = ModelConfig.from_dict(manifest.architecture)
    if manifest.format_version != DATA_FORMAT_VERSION:
        raise ArtifactError(f"A data-only bundle has format version {DATA_FORMAT_VERSION}; make it again.")
    for name in ("max_source_tokens", "max_target_tokens"):
        value = getattr(manifest, name)
        if not 1 <= value <= config.max_positions:
            raise ArtifactError(
                f"The bundle's {name} is {value}; its architecture has positions for 1 to {config.max_positions}."
            )
    policy = manifest.policy
    heads = config.decoder_stack.num_heads
    if policy.alignment_head is not None and policy.alignment_head >= heads:
        raise ArtifactError(f"The bundle's alignment_head is {policy.alignment_head}; its decoder has {heads} heads.")
    _ = manifest.calibration  # raises if it is invalid
    placeholders = manifest.capabilities.placeholders
    if not 0 <= placeholders <= NUM_PLACEHOLDERS:
        raise ArtifactError(f"The bundle has {placeholders} placeholders; the limit is {NUM_PLACEHOLDERS}.")
    sizes = (config.source_vocab_size, config.target_vocab_size)
    largest = tokenizer.largest_ids
    if largest[0] >= sizes[0] or largest[1] >= sizes[1]:
        raise ArtifactError(
            f"The bundle's vocabularies have tokens up to {largest[0]} and {largest[1]}; its model has {sizes[0]} and "
            f"{sizes[1]} tokens."
        )
    # Vocabularies of other projects may be smaller than their models; their tokenizers decode the other ids as unknown.
    if isinstance(tokenizer, VersoTokenizer) and (tokenizer.vocab_size, tokenizer.target_vocab_size) != sizes:
        raise ArtifactError(
            f"The bundle's vocabularies have {tokenizer.vocab_size} and {tokenizer.target_vocab_size} tokens; its "
            f"model has {sizes[0]} and {sizes[1]}."
        )
    padding = () if tokenizer.pad_id == NO_PAD_ID else (tokenizer.pad_id,)
    special_ids = (*padding, tokenizer.start_id, tokenizer.end_id)
    others = policy.suppressed_ids(tokenizer.never_generated)
    if not all(0 <= i < min(sizes) for i in special_ids) or not all(0 <= i < sizes[1] for i in others):
        raise ArtifactError(
            f"The bundle's special tokens are {special_ids}, and {others} may not come; its model has {sizes[0]} and "
            f"{sizes[1]} tokens."
        )
    _check_languages(manifest, tokenizer, sizes)


def _check_languages(manifest: Manifest, tokenizer: Tokenizer, sizes: tuple[int, int]) -> None:
    """Refuse languages for which the vocabulary or the model has no token.

    Raises:
        ArtifactError: A language has no token.
    """
    # A source for each language as a target: that of one of its pairs, or the previous language if it has no pair.
    previous = dict(zip(manifest.languages, manifest.languages[-1:] + manifest.languages[:-1], strict=True))
    sources = {**previous, **{target: source for source, target in manifest.pairs}}
    for target, source in sources.items():
        try:
            ids, forced = tokenizer.encode("a", target, source), tokenizer.forced_ids(target)
        except (KeyError, ArtifactError) as error:
            raise ArtifactError(f"The bundle's vocabulary has no token for the language {target!r}.") from error
        if not all(0 <= i < sizes[0] for i in ids) or not all(0 <= i < sizes[1] for i in forced):
            raise ArtifactError(f"The bundle's model does not have the token of the language {target!r}.")
