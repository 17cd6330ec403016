"""Requests on their way through one loaded model."""
