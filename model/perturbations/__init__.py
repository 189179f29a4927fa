"""Perturbed inputs: sentences of a test set changed to resemble the text users send.

Test sets contain whole sentences with correct case and punctuation and few different names. Each kind of perturbation
(:mod:`model.perturbations.kinds`) changes their sentences in one way. If the reference translation stays valid, BLEU
measures the loss of quality. Otherwise errors are counted that are wrong in any translation: empty output, repetition
loops, invented names, lost names, digits and characters (:mod:`model.perturbations.inputs`).
"""
