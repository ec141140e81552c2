"""How long a job will run, learnt from the jobs that ended before it was submitted."""

from simulator.prediction.predicted_trace import predict_all
from simulator.prediction.types import PREDICTORS, Prediction, Predictor

__all__ = ["PREDICTORS", "Prediction", "Predictor", "predict_all"]
