"""From texts to sentences of tokens, and from decoded tokens to translations."""
