"""What is made from the program: pages of the reference, the Helm chart, the dashboard; ``make reference``."""
