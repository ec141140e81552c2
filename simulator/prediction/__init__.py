"""How long a job will run, learnt from the jobs that ended before it was submitted."""

from simulator.prediction.predictor import PREDICTORS, Predictor, predict_all

__all__ = ["PREDICTORS", "Predictor", "predict_all"]
