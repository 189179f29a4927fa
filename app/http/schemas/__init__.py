"""The JSON contract of the native routes: request bodies, answers and examples."""
