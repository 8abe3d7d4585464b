"""The protocol of queryable state: messages, frames, proofs, codecs."""
