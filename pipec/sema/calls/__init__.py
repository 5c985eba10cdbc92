"""What a call means: operations, methods of pipelines and stages, built-in functions, helpers."""
