"""The Transformer: its configuration, its layers and its int8 form. Text, files and search are not handled here."""
