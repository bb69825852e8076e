"""Encrypts and decrypts fields of JSON documents, values and Arrow columns with a Leafseal engine, in this process or remote."""

from leafseal import _errors
from leafseal._engine import AsyncEngine, Engine
from leafseal._errors import *  # noqa: F403
from leafseal._types import Inspection, Report

__all__ = ["AsyncEngine", "Engine", "Inspection", "Report"]
__all__ += _errors.__all__
