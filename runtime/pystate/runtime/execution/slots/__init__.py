"""The slots of an attempt: who has registered, how they are called, how one is lost."""
