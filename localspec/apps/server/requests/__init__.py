"""Parts of requests that the APIs share: fields, sampling parameters, conversations."""
