"""The way of a request: text to sentences, to the model that has the pair, through the engine, and to text again."""
