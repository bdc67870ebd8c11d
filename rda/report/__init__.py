"""Run records as tables, pictures and pages."""
