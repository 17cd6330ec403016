"""Every call of libllama: its log, model files, contexts and batches."""
