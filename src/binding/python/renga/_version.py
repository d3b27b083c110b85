"""The version of Renga that this package is for."""
__version__ = "0.1.0"
