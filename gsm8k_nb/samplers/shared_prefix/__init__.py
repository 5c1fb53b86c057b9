"""The fast exact engine: prompts that begin alike share what was computed for their beginning."""
