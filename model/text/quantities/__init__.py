"""Numbers, amounts, dates and times: read by the rules of a language, compared, and spelled by those of another."""
