"""The verifier of certificates: recounts an answer with code that shares nothing with the search but the evaluator."""
