"""How the text of the translator that ships is made; ``scripts/train_shipped.sh`` has the order of the steps."""
