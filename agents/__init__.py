"""Who is asked: the local hooked-model runnable, hosted chat models beside it, the scripted one for tests."""
