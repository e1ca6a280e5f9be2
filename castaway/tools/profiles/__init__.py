"""Profiles, complete files of parameters: listed, compared with params.yaml, estimated, written."""
