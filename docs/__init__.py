"""The pages, and the code that fills them: ``fill`` (numbers of the study) and ``generated`` (references)."""
