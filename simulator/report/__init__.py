"""What a replay showed: one self-contained page, and exports."""
