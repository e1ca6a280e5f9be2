"""Episodes: players, sampling and vLLM servers, playing, and figures of the played episodes."""
