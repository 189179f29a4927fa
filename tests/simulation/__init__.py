"""The service on a virtual clock: one seed draws what callers do and what fails, and the same seed repeats it.

The queue, the engine, the cache, the accounts and the choice of models are the real ones, and in a third of the seeds
the whole application. Threads and locks are simulated (:mod:`tests.simulation.kernel`): one thread runs at a time, and
at each lock the seed decides which one is next. The model is a stand-in whose answers are a function of the sentence
(:mod:`tests.simulation.stand_in`).
"""
