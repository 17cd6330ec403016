"""The towers by which models see: layers that turn the pixels of a picture into embeddings."""
