"""Add up in a fixed order, so that the same numbers give the same bits on every call, on a GPU as well."""
