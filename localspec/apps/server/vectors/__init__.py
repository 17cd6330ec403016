"""Embeddings and reranking, by the paths of OpenAI, Ollama, llama.cpp, Jina, Cohere and vLLM."""
