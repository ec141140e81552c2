from slurm.ask import SlurmRefused as SlurmRefused
from slurm.ask import ask_slurm as ask_slurm

DISTRIBUTION: str
