"""Quality beyond BLEU on clean test sets: perturbed inputs, and whether a translator complies with options.

Test sets contain whole sentences with correct case and punctuation and few different names. Each kind of perturbation
(:mod:`benchmarks.quality.perturbations`) changes their sentences in one way. If the reference translation stays valid,
BLEU measures the loss of quality. Otherwise errors are counted that are wrong in any translation: empty output,
repetition loops, invented names, lost names, digits and characters (:mod:`benchmarks.quality.perturbed_inputs`).
"""
