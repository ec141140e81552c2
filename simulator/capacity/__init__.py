"""Questions of capacity planning, each answered with numbers, a figure and the assumptions behind them."""
