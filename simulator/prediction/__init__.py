"""How long a job will run, learnt from the jobs that ended before it was submitted."""

from simulator.prediction.predicted_trace import predict_all
from simulator.prediction.predictors import make_predictor, predictor_names
from simulator.prediction.types import Prediction, Predictor

__all__ = ["Prediction", "Predictor", "make_predictor", "predict_all", "predictor_names"]
