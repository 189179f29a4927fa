"""The JSON contract of the native routes: what a request may hold and what an answer holds."""
