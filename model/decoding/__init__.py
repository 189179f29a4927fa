"""How target tokens are chosen: options, greedy and beam search, and the cohort of sentences that decode together."""
