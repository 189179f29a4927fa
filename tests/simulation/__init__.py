"""The service on a virtual clock: one seed draws what callers do and what fails, and the same seed repeats it.

The queue, the engine, the cache, the accounts and the choice of models are the real ones, in a third of the seeds the
whole application, and in a ninth an ingress with its engine replicas. Threads and locks are simulated
(:mod:`tests.simulation.kernel`): one thread runs at a time, and at each lock the seed decides which one is next. The
model is a stand-in whose answers are a function of the sentence (:mod:`tests.simulation.stand_in`).
"""
