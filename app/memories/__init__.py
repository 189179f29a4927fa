"""Translation memories: stored translations of sentences, their look-up, and their exchange as TMX."""
