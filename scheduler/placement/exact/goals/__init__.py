"""Goals besides the pair: soft terms and closer levels, with their bounds, one goal after another."""
