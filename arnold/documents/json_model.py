"""Pieces that several JSON documents share.  Field docstrings become the descriptions of ``arnold schema``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class JsonModel(BaseModel):
    """Base of all JSON output: nothing undocumented, every number finite, descriptions from docstrings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
